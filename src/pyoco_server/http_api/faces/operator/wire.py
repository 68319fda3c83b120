"""Requests about workers, wheels and dead letters, and the format in which they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from starlette.requests import Request

from pyoco_server.canonical_json import CanonicalJsonError, check_members
from pyoco_server.errors import Invalid, NotFound, problem_at
from pyoco_server.http_api.faces.operator import params
from pyoco_server.json_value import JsonObject
from pyoco_server.operations.fleet.dead_letters import DeadLetterQuery, LetterKind, ShownLetter
from pyoco_server.operations.fleet.workers import WorkerFilter
from pyoco_server.store.fleet.registry import WorkerState
from pyoco_server.store.fleet.wheels import Wheel
from pyoco_server.store.queue.dead_letters import KeptLetter
from pyoco_server.store.queue.dismissals import NOTE_CHARS_MAX, Dismissal
from pyoco_server.store.runs.log import StoredRun

T = TypeVar("T")

_ID_DIGITS_MAX = 18
_SOURCE_CHARS_MAX = 512


class WorkerPatch(msgspec.Struct, frozen=True):
    """At least one of them."""

    hidden: bool | msgspec.UnsetType = msgspec.UNSET
    draining: bool | msgspec.UnsetType = msgspec.UNSET


class Redrive(msgspec.Struct):
    again: bool = False


class Dismiss(msgspec.Struct):
    note: Annotated[str, msgspec.Meta(max_length=NOTE_CHARS_MAX)] | None = None


def worker_filter(request: Request) -> WorkerFilter:
    scope, state = params.SCOPE.read(request), params.STATE.read(request)
    return WorkerFilter(
        gone=scope == "all",
        state=WorkerState(state) if state else None,
        hidden=params.INCLUDE_HIDDEN.read(request),
    )


def worker_changes(body: bytes) -> dict[str, bool]:
    """`hidden`, `draining` or both."""
    patch = _decode(body, WorkerPatch, params.WORKERS_WRONG)
    changes: dict[str, bool] = msgspec.to_builtins(patch)
    if not changes:
        message = "Give hidden, draining, or both; each is true or false."
        raise Invalid.at(["body"], message, err_id=params.WORKERS_WRONG)
    return changes


def wheel(found: Wheel, bucket: str) -> JsonObject:
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


def source(request: Request) -> dict[str, str | None]:
    """The origin of a change of a wheel, as far as the request shows it."""

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


def letter_query(request: Request) -> DeadLetterQuery:
    kind = params.LETTER_KIND.read(request)
    return DeadLetterQuery(
        limit=params.LETTERS_LIMIT.read(request),
        reason=params.REASON.read(request) or None,
        kind=LetterKind(kind) if kind else None,
        dismissed=params.INCLUDE_DISMISSED.read(request),
        cursor=params.CURSOR.read(request) or None,
    )


def letter_id(path: Mapping[str, str]) -> int:
    """An id that is no number does not exist."""
    raw = path["letter_id"]
    if not raw.isascii() or not raw.isdigit() or len(raw) > _ID_DIGITS_MAX or not int(raw):
        raise NotFound("There is no such dead letter. Look at GET /dlq.", err_id="")
    return int(raw)


def letter(found: ShownLetter, *, whole: bool) -> JsonObject:
    """In the members of appendix E, then ours. A list leaves out the message, which may be long."""
    shown = {"id": str(found.kept.seq)} | msgspec.structs.asdict(found.kept.letter)
    if not whole:
        del shown["payload"]
    dismissal = msgspec.structs.asdict(found.dismissal) if found.dismissal is not None else None
    return shown | {"kind": found.kind, "redriven_as": found.redriven_as, "dismissed": dismissal}


def read_again(body: bytes) -> bool:
    """The body is optional."""
    return _decode(body, Redrive).again if body.strip() else Redrive().again


def read_note(body: bytes) -> str | None:
    """The body is optional."""
    return (_decode(body, Dismiss).note or "").strip() or None if body.strip() else None


def dismissed(kept: KeptLetter, dismissal: Dismissal) -> JsonObject:
    return {"letter_id": str(kept.seq), "dismissed": msgspec.structs.asdict(dismissal)}


def redriven(kept: KeptLetter, stored: StoredRun) -> JsonObject:
    return {"letter_id": str(kept.seq), "run_id": stored.run.run_id, "status": stored.run.status}


def _decode(body: bytes, kind: type[T], err_id: str | None = None) -> T:
    """Unknown members are ignored; a member of the wrong type is refused."""
    try:
        asked = msgspec.json.decode(body, type=kind)
        check_members(body)  # the decoder takes the last of two
        return asked
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CanonicalJsonError) as error:
        message = str(error) or "the body is nested too deeply"
        details = [problem_at(["body"], message)]
        raise Invalid("The body is not valid.", err_id=err_id, details=details) from error
