"""Queries on the tables of rechecks. The results are values of `recheck`."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from pyoco_server.read_model.recheck_table import RecheckTable, Row, StrategySearch
from pyoco_server.recheck.catalogue import Strategy
from pyoco_server.recheck.records import Request, Tally
from pyoco_server.recheck.thresholds import METRICS, Profile, Rule, StrategyHealth, profile_of
from pyoco_server.store.rechecks import decode_profiles, decode_request, decode_strategy

TOTALS_KEPT_MAX = 256


class ListedStrategy(NamedTuple):
    strategy: Strategy
    health: str
    checked_at: float | None


class PastResult(NamedTuple):
    completed_at: float
    request_id: str
    health: str
    metrics: dict[str, float | None]
    digest: str


class KeptArtifact(NamedTuple):
    artifact_id: int
    tenant: str
    created_at: float
    kind: str
    name: str
    content_type: str
    bytes_size: int
    object: str


_ARTIFACT = "artifact_id, tenant, created_at, kind, name, content_type, bytes_size, object"
_RESULT = f"completed_at, request_id, health, {', '.join(METRICS)}, digest"


class RecheckQueries:
    def __init__(self, table: RecheckTable) -> None:
        self._table = table
        self._totals: dict[StrategySearch, int] = {}

    def invalidate(self) -> None:
        """Drop cached totals, because the tables have changed."""
        self._totals.clear()

    def page(
        self, search: StrategySearch, order: str, limit: int, offset: int
    ) -> tuple[list[ListedStrategy], int]:
        """A page, and how many there are in all."""
        total = self._total(search)
        rows = self._table.page(search, order, limit, offset, total=total) if offset < total else []
        return [_listed(row) for row in rows], total

    def has_any(self, tenant: str) -> bool:
        """Whether the tenant has a catalogue."""
        return self._table.row("SELECT 1 FROM strategies WHERE tenant = ? LIMIT 1", tenant) is not None

    def find(self, tenant: str, strategy_id: str) -> ListedStrategy | None:
        query = "SELECT entry, health, checked_at FROM strategies WHERE tenant = ? AND id = ?"
        row = self._table.row(query, tenant, strategy_id)
        return _listed(row) if row else None

    def flows_of(self, search: StrategySearch, limit: int) -> list[tuple[str, str]]:
        """Id and evaluating flow of all matching strategies."""
        return [(str(one), str(flow)) for one, flow in self._table.found(search, limit)]

    def profiles(self, tenant: str) -> dict[str, dict[str, Rule]]:
        row = self._table.row("SELECT rules FROM profiles WHERE tenant = ?", tenant)
        return decode_profiles(_bytes(row[0])) if row else {}

    def profile_for(self, tenant: str, strategy_id: str, profiles: dict[str, dict[str, Rule]]) -> Profile:
        query = "SELECT profile FROM strategies WHERE tenant = ? AND id = ?"
        row = self._table.row(query, tenant, strategy_id)
        return profile_of(str(row[0]) if row else "", profiles)

    def request(self, request_id: str, tenant: str | None = None) -> Request | None:
        row = self._table.row("SELECT request FROM requests WHERE request_id = ?", request_id)
        found = decode_request(_bytes(row[0])) if row else None
        return found if found is None or tenant in (None, found.tenant) else None

    def tally(self, request_id: str) -> Tally:
        sums = ", ".join(f"total({name})" for name in ("success", "failed", *StrategyHealth))
        query = f"SELECT count(*), max(completed_at), {sums} FROM outcomes WHERE request_id = ?"
        row = self._table.row(query, request_id) or ()
        batches, last = msgspec.convert(row[:2], tuple[int, float | None])
        success, failed, *by_health = msgspec.convert(row[2:], list[float])
        health = {name.value: int(count) for name, count in zip(StrategyHealth, by_health, strict=True)}
        return Tally(
            batches=batches, success=int(success), failed=int(failed), health=health, last_update=last or 0.0
        )

    def results(
        self, tenant: str, strategy_id: str, limit: int, begin: float = 0.0, end: float = 1e18
    ) -> list[PastResult]:
        """Newest first; both ends belong to the range."""
        query = (
            f"SELECT {_RESULT} FROM results WHERE tenant = ? AND strategy = ? "
            "AND completed_at BETWEEN ? AND ? ORDER BY completed_at DESC, request_id DESC LIMIT ?"
        )
        return [_past(row) for row in self._table.rows(query, tenant, strategy_id, begin, end, limit)]

    def averages(self, tenant: str, strategy_id: str, since: float) -> dict[str, float | None]:
        columns = ", ".join(f"avg({name})" for name in METRICS)
        query = f"SELECT {columns} FROM results WHERE tenant = ? AND strategy = ? AND completed_at >= ?"
        row = self._table.row(query, tenant, strategy_id, since) or ()
        return dict(zip(METRICS, msgspec.convert(row, list[float | None]), strict=True))

    def artifacts_of(self, tenant: str, strategy_id: str, limit: int) -> list[KeptArtifact]:
        query = f"SELECT {_ARTIFACT} FROM artifacts WHERE tenant = ? AND strategy = ?"
        rows = self._table.rows(
            f"{query} ORDER BY created_at DESC, artifact_id LIMIT ?", tenant, strategy_id, limit
        )
        return [_artifact(row) for row in rows]

    def artifacts_in(self, request_id: str, limit: int) -> list[KeptArtifact]:
        query = f"SELECT {_ARTIFACT} FROM artifacts WHERE request_id = ? ORDER BY artifact_id LIMIT ?"
        return [_artifact(row) for row in self._table.rows(query, request_id, limit)]

    def artifact(self, artifact_id: int, tenant: str) -> KeptArtifact | None:
        query = f"SELECT {_ARTIFACT} FROM artifacts WHERE artifact_id = ? AND tenant = ?"
        row = self._table.row(query, artifact_id, tenant)
        return _artifact(row) if row else None

    def _total(self, search: StrategySearch) -> int:
        total = self._totals.get(search)
        if total is None:
            if len(self._totals) >= TOTALS_KEPT_MAX:
                self._totals.clear()
            total = self._totals[search] = self._table.count(search)
        return total


def _past(row: Row) -> PastResult:
    at, request_id, health, *measured, digest = row
    metrics = dict(zip(METRICS, measured, strict=True))
    return msgspec.convert((at, request_id, health, metrics, digest), PastResult)


def _listed(row: Row) -> ListedStrategy:
    entry, health, checked_at = msgspec.convert(row, tuple[bytes, str, float | None])
    return ListedStrategy(decode_strategy(entry), health, checked_at)


def _artifact(row: Row) -> KeptArtifact:
    return msgspec.convert(row, KeptArtifact)


def _bytes(value: object) -> bytes:
    assert isinstance(value, bytes)
    return value
