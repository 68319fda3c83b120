"""Names and lists that follow from settings."""

from __future__ import annotations

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from pyoco_server.config.table import Table


# `defer_build`: as in `table.py`.
@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", defer_build=True))
class Names(Table):
    @property
    def nats_servers(self) -> list[str]:
        return list(_items(self.nats_url))

    @property
    def auth_methods(self) -> frozenset[str]:
        """Empty when authentication is off."""
        return frozenset(_items(self.http_auth_mode)) - {"none"}

    @property
    def allowed_host_names(self) -> tuple[str, ...]:
        return _items(self.allowed_hosts)

    @property
    def callable_packages(self) -> tuple[str, ...]:
        return _items(self.callable_allow)

    @property
    def flow_env_names(self) -> tuple[str, ...]:
        """Names, and prefixes of names that end with `*`."""
        return _items(self.flow_env)

    # Names that the contract does not define are derived from the runs bucket, so that two environments can
    # share one broker.

    @property
    def events_stream(self) -> str:
        return f"{self._environment.upper()}_EVENTS"

    @property
    def events_subject_prefix(self) -> str:
        return f"{self._environment}.events"

    @property
    def live_subject_prefix(self) -> str:
        return f"{self._environment}.live"

    @property
    def logs_stream(self) -> str:
        return f"{self._environment.upper()}_LOGS"

    @property
    def logs_subject_prefix(self) -> str:
        return f"{self._environment}.logs"

    @property
    def live_logs_subject_prefix(self) -> str:
        return f"{self._environment}.live_logs"

    @property
    def leases_kv_bucket(self) -> str:
        return f"{self._environment}_leases"

    @property
    def schedules_kv_bucket(self) -> str:
        return f"{self._environment}_schedules"

    @property
    def batches_kv_bucket(self) -> str:
        return f"{self._environment}_batches"

    @property
    def occurrences_stream(self) -> str:
        return f"{self._environment.upper()}_OCCURRENCES"

    @property
    def occurrences_subject_prefix(self) -> str:
        return f"{self._environment}.occurrences"

    @property
    def graphs_kv_bucket(self) -> str:
        return f"{self._environment}_graphs"

    @property
    def dismissals_kv_bucket(self) -> str:
        return f"{self._environment}_dismissals"

    @property
    def refused_stream(self) -> str:
        return f"{self._environment.upper()}_REFUSED"

    @property
    def refused_subject_prefix(self) -> str:
        return f"{self._environment}.refused"

    @property
    def rechecks_kv_bucket(self) -> str:
        return f"{self._environment}_rechecks"

    @property
    def limits_kv_bucket(self) -> str:
        return f"{self._environment}_limits"

    @property
    def artifacts_object_bucket(self) -> str:
        return f"{self._environment}_artifacts"

    @property
    def idempotency_kv_bucket(self) -> str:
        return f"{self._environment}_idempotency"

    @property
    def idempotency_subject_prefix(self) -> str:
        return f"{self._environment}.idempotency"

    @property
    def results_object_bucket(self) -> str:
        return f"{self._environment}_results"

    @property
    def _environment(self) -> str:
        return self.runs_kv_bucket.removesuffix("_runs") or self.runs_kv_bucket


def _items(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
