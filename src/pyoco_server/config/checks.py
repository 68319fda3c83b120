"""Reasons to refuse a configuration, in sentences that say what to change."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

from pydantic import ValidationError

from pyoco_server.config.describe import allowed_for, as_written, default_of, field_names, shown, variable_of
from pyoco_server.config.names import Names
from pyoco_server.errors import ConfigError


def refusal(refused: ValidationError) -> ConfigError:
    details = [_problem(str(error["loc"][-1]), error["input"], error["msg"]) for error in refused.errors()]
    return ConfigError(" ".join(problem["sentence"] for problem in details), details=details)


def _problem(name: str, value: Any, problem: str) -> dict[str, str]:
    if name not in field_names():
        return {"field": name, "sentence": f"There is no setting {name!r}; correct its name or remove it."}
    sentence = f"{variable_of(name)} is {shown(name, value)}; write {allowed_for(name)}"
    example = as_written(default_of(name))
    sentence += f", for example {example}." if example else "."
    return {"field": name, "variable": variable_of(name), "sentence": sentence, "problem": problem}


def broken_relations(c: Names) -> Iterator[str]:
    if c.ack_progress_interval_sec >= c.consumer_ack_wait_sec:
        yield _must("ack_progress_interval_sec", "be less than", "consumer_ack_wait_sec", c)
    if c.worker_lease_interval_sec >= c.worker_lease_sec:
        yield _must("worker_lease_interval_sec", "be less than", "worker_lease_sec", c)
    if 0 < c.worker_history_sec < c.worker_disconnect_timeout_sec:
        yield _must("worker_history_sec", "be 0 or at least", "worker_disconnect_timeout_sec", c)
    if c.params_max_bytes > c.commit_max_bytes:
        yield _must("params_max_bytes", "be at most", "commit_max_bytes", c)
    if bool(c.nats_tls_cert_file) != bool(c.nats_tls_key_file):
        yield "PYOCO_NATS_TLS_CERT_FILE and PYOCO_NATS_TLS_KEY_FILE go together; set both or neither."
    if bool(c.nats_user) != bool(c.nats_password):
        yield "PYOCO_NATS_USER and PYOCO_NATS_PASSWORD go together; set both or neither."
    if "jwt" in c.auth_methods and not c.jwt_jwks:
        yield "PYOCO_HTTP_AUTH_MODE names jwt, which needs keys to check tokens with; set PYOCO_JWT_JWKS."
    if c.recheck_executor == "airflow" and not c.airflow_url.startswith(("http://", "https://")):
        yield "PYOCO_RECHECK_EXECUTOR is airflow; write in PYOCO_AIRFLOW_URL where it is: http://host:8080."
    if bool(c.airflow_user) != bool(c.airflow_password):
        yield "PYOCO_AIRFLOW_USER and PYOCO_AIRFLOW_PASSWORD go together; set both or neither."
    yield from _name_collisions(c)


def _must(name: str, relation: str, other: str, c: Names) -> str:
    one, two = (f"{variable_of(n)} ({getattr(c, n)})" for n in (name, other))
    return f"{one} must {relation} {two}; change one of them."


def _name_collisions(c: Names) -> Iterator[str]:
    """Two resources with one name, or two streams with overlapping subjects, collide at the broker."""
    kv, stores = _named(c, "_kv_bucket"), _named(c, "_object_bucket", "_object_store_bucket")
    if len({*kv}) < len(kv) or len({*stores}) < len(stores):
        yield "Every bucket needs a name of its own; change one of the PYOCO_*_BUCKET settings."
    streams = _named(c, "_stream")
    if len({*streams}) < len(streams):
        yield "PYOCO_WORK_STREAM, PYOCO_DLQ_STREAM and what PYOCO_RUNS_KV_BUCKET names must differ."
    for one, two in permutations(_named(c, "_subject_prefix"), 2):
        if f"{one}.".startswith(f"{two}."):
            yield f"The subjects {one} and {two} overlap; change one of the PYOCO_*_SUBJECT_PREFIX settings."


def _named(c: Names, *endings: str) -> list[str]:
    """The values of all settings and derived names that end so."""
    return [getattr(c, name) for name in dir(c) if name.endswith(endings)]
