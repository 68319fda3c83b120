"""The operator's words: what may be asked of workers, wheels and dead letters, and how they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request

from pyoco_server.errors import Invalid, NotFound
from pyoco_server.http_api.faces.operator.request_context import decoded_body, flag, whole_number, wrong
from pyoco_server.operations.fleet.dead_letters import DeadLetterQuery, KeptLetter
from pyoco_server.operations.fleet.wheels import Wheel, WheelAction, is_wheel_name
from pyoco_server.operations.fleet.workers import WorkerFilter, WorkerState
from pyoco_server.operations.runs.query import StoredRun

WORKERS_DEFAULT, WORKERS_MAX = 100, 500
STREAM_SEC_MAX = 600
HISTORY_DEFAULT, HISTORY_MAX = 100, 500
LETTERS_DEFAULT, LETTERS_MAX = 50, 200
APPROVALS_DEFAULT, APPROVALS_MAX = 50, 200
WORKERS_WRONG = "ERR-PYOCO-0019"
_ID_DIGITS_MAX = 18
_SOURCE_CHARS_MAX = 512


class WorkerPatch(msgspec.Struct, frozen=True):
    """At least one of them."""

    hidden: bool | msgspec.UnsetType = msgspec.UNSET
    draining: bool | msgspec.UnsetType = msgspec.UNSET


class Redrive(msgspec.Struct):
    again: bool = False


def workers_wanted(asked: Mapping[str, str]) -> tuple[WorkerFilter, int]:
    scope = asked.get("scope", "active").strip().lower()
    if scope not in ("active", "all"):
        raise wrong("query", "scope", "scope must be active or all.", WORKERS_WRONG)
    state = asked.get("state", "").strip().upper() or None
    if state is not None and state not in WorkerState.__members__:
        raise wrong("query", "state", f"state must be one of {', '.join(WorkerState)}.", WORKERS_WRONG)
    wanted = WorkerFilter(
        gone=scope == "all",
        state=WorkerState(state) if state else None,
        hidden=flag(asked, "include_hidden", default=False, err_id=WORKERS_WRONG),
    )
    return wanted, whole_number(
        asked, "limit", default=WORKERS_DEFAULT, most=WORKERS_MAX, err_id=WORKERS_WRONG
    )


def stream_sec(asked: Mapping[str, str]) -> int:
    """After how long a stream of workers ends; whoever wants more begins it anew."""
    name, most = "timeout_sec", STREAM_SEC_MAX
    return whole_number(asked, name, default=most, most=most, err_id=WORKERS_WRONG)


def worker_changes(body: bytes) -> dict[str, bool]:
    """What is to become of a worker: `hidden`, `draining` or both."""
    patch: WorkerPatch = decoded_body(body, WorkerPatch, WORKERS_WRONG)
    changes: dict[str, bool] = msgspec.to_builtins(patch)
    if not changes:
        message = "Give hidden, draining, or both; each is true or false."
        problem = {"loc": ["body"], "msg": message, "type": "value_error"}
        raise Invalid(message, err_id=WORKERS_WRONG, details=[problem])
    return changes


def wheel(found: Wheel, bucket: str) -> dict[str, Any]:
    return {
        "name": found.name,
        "size_bytes": found.size,
        "bucket": bucket,
        "nuid": found.nuid,
        "modified": found.uploaded_at,
        "sha256_hex": found.sha256,
        "tags": list(found.tags),
        "package": found.package,
        "version": str(found.version),
    }


def history_wanted(asked: Mapping[str, str]) -> tuple[int, str | None, WheelAction | None]:
    limit = whole_number(asked, "limit", default=HISTORY_DEFAULT, most=HISTORY_MAX)
    action = asked.get("action", "").strip().lower() or None
    if action is not None and action not in {known.value for known in WheelAction}:
        raise wrong("query", "action", f"action must be {' or '.join(WheelAction)}.")
    name = asked.get("wheel_name", "").strip() or None
    if name is not None and not is_wheel_name(name):
        raise wrong("query", "wheel_name", "wheel_name must be like demo_pkg-1.0-py3-none-any.whl.")
    return limit, name, WheelAction(action) if action else None


def source(request: Request) -> dict[str, str | None]:
    """From where somebody changed a wheel, as far as the request says."""

    def header(name: str) -> str | None:
        return (request.headers.get(name) or "")[:_SOURCE_CHARS_MAX] or None

    return {
        "remote_addr": request.client.host if request.client else None,
        "x_forwarded_for": header("x-forwarded-for"),
        "x_real_ip": header("x-real-ip"),
        "user_agent": header("user-agent"),
        "host": header("host"),
        "scheme": request.url.scheme or None,
    }


def letters_wanted(asked: Mapping[str, str]) -> DeadLetterQuery:
    return DeadLetterQuery(
        limit=whole_number(asked, "limit", default=LETTERS_DEFAULT, most=LETTERS_MAX),
        reason=asked.get("reason") or None,
        cursor=asked.get("cursor") or None,
    )


def letter_id(path: Mapping[str, str]) -> int:
    """What cannot be a number is one that does not exist."""
    raw = path["letter_id"]
    if not raw.isascii() or not raw.isdigit() or len(raw) > _ID_DIGITS_MAX or not int(raw):
        raise NotFound("There is no such dead letter. Look at GET /dlq.", err_id="")
    return int(raw)


def letter(kept: KeptLetter, *, whole: bool) -> dict[str, Any]:
    """In the members of appendix E. A list leaves out the message, which may be long."""
    shown = {"id": str(kept.seq)} | msgspec.structs.asdict(kept.letter)
    if not whole:
        del shown["payload"]
    return shown


def again_wanted(body: bytes) -> bool:
    """The body is optional."""
    asked: Redrive = decoded_body(body, Redrive) if body.strip() else Redrive()
    return asked.again


def redriven(kept: KeptLetter, stored: StoredRun) -> dict[str, Any]:
    return {"letter_id": str(kept.seq), "run_id": stored.run.run_id, "status": stored.run.status}
