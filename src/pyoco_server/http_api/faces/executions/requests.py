"""Requests of this face: ids in paths, content types, and headers and bodies of commands, strictly parsed.

Refuses before anything is read from the store.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal, TypeVar, cast

import msgspec
from msgspec import Meta
from starlette.requests import Request

from pyoco_server import canonical_json
from pyoco_server.errors import Invalid, TooLarge
from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.requests.bodies import is_json
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from pyoco_server.ids import new_uuid
from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.graph import ATTEMPTS_MAX
from pyoco_server.names import is_run_id
from pyoco_server.operations.executions.histories import Histories
from pyoco_server.operations.idempotency.key_scope import checked_key
from pyoco_server.printable import LINES_PATTERN, ONE_LINE_PATTERN

KEY_HEADER, CORRELATION_HEADER = "X-Idempotency-Key", "X-Correlation-Id"
CORRELATION_CHARS_MAX = 256
NAME_CHARS_SHOWN = 64
JSON = frozenset({"application/json"})
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
# A value of a body is nested a few levels deeper in its event, which needs a canonical form too.
DEPTH_MAX = canonical_json.DEPTH_MAX - 4

_PLACE = re.compile(r" - at `(?:key in )?\$\.?(.*)`$")
_STEP = re.compile(r"[^.\[\]]+")
_MISSING = re.compile(r"missing required field '(\w+)'")

_Name = Annotated[str, Meta(min_length=1, max_length=256, pattern=ONE_LINE_PATTERN)]
_Text = Annotated[str, Meta(max_length=4096, pattern=LINES_PATTERN)]


class CreateExecution(msgspec.Struct, frozen=True, kw_only=True):
    graphId: Annotated[str, Meta(min_length=1, max_length=256 + 5)]
    input: JsonObject = {}
    graphVersion: Annotated[int, Meta(ge=1, le=10**9)] | None = None
    tag: str | None = None


class Nothing(msgspec.Struct, frozen=True, kw_only=True):
    """The body may be left out."""


class CancelExecution(msgspec.Struct, frozen=True, kw_only=True):
    reason: _Text | None = None


class StartNode(msgspec.Struct, frozen=True, kw_only=True):
    attempt: Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]
    workerId: _Name


class ReportNodeProgress(msgspec.Struct, frozen=True, kw_only=True):
    progress: Annotated[float, Meta(ge=0, le=100)]
    message: _Text | None = None


class PutNodeWaiting(msgspec.Struct, frozen=True, kw_only=True):
    waitKey: _Name
    prompt: JsonObject | None = None


class ResumeNode(msgspec.Struct, frozen=True, kw_only=True):
    resumeKey: _Name
    payload: JsonValue = None
    decision: Literal["approve", "reject"] = "approve"
    comment: _Text | None = None


class SucceedNode(msgspec.Struct, frozen=True, kw_only=True):
    output: JsonValue = None


class NodeError(msgspec.Struct, frozen=True, kw_only=True):
    code: _Name
    message: _Text = ""


class FailNode(msgspec.Struct, frozen=True, kw_only=True):
    error: NodeError


B = TypeVar("B", bound=msgspec.Struct)


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """What every command has."""

    key: str
    correlation_id: str
    raw: bytes


def histories_of(gateway: Gateway) -> Histories[EventHistory]:
    """`app.py` makes the gateway with the histories of this face."""
    return cast("Histories[EventHistory]", gateway.histories)


def execution_id_of(request: Request) -> str:
    return checked_id(str(request.path_params["executionId"]))


def checked_id(execution_id: str) -> str:
    """A text that cannot be an id is answered like an unknown id."""
    if not is_run_id(execution_id):
        raise ExecutionNotFound(shown(execution_id))
    return execution_id


def shown(name: str) -> str:
    """A text of the caller for use in an error: short, and on one line."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:NAME_CHARS_SHOWN])


def content_type_of(request: Request, accepted: frozenset[str]) -> str:
    """Without a header: JSON."""
    given = request.headers.get("content-type", "")
    kind = "application/json" if is_json(given) else given.partition(";")[0].strip().lower()
    if kind not in accepted:
        known = ", ".join(sorted(accepted))
        raise FrameworkRefusal(415, f"The body must be {known}: say so in Content-Type.")
    return kind


async def envelope_of(request: Request, *, bytes_max: int) -> Envelope:
    content_type_of(request, JSON)
    key = checked_key(request.headers.getlist(KEY_HEADER), name=KEY_HEADER)
    correlation_id = _correlation_id(request)
    raw = await request.body()
    if len(raw) > bytes_max:
        raise TooLarge(
            f"The body has {len(raw)} bytes; a command brings at most {bytes_max} (PYOCO_PARAMS_MAX_BYTES). "
            "Store the data elsewhere and pass its address."
        )
    return Envelope(key=key, correlation_id=correlation_id, raw=raw)


def body_of(raw: bytes, kind: type[B]) -> tuple[B, JsonObject]:
    """The body as `kind`, and its whole value. Strict JSON: no duplicate names, no NaN.

    Unknown members are ignored, but they are part of the digest of a request.
    """
    try:
        value = canonical_json.parse(raw if raw.strip() else b"{}")
        _check_depth(raw, value)
        body = msgspec.convert(value, kind)
        assert isinstance(value, dict), "kind is a struct"
        return body, value
    except canonical_json.CanonicalJsonError as error:
        raise _invalid([], f"The body is not strict JSON: {error}.", "json_invalid") from None
    except msgspec.ValidationError as error:
        raise _explained(error) from None


def _check_depth(raw: bytes, value: object) -> None:
    if raw.count(b"[") + raw.count(b"{") <= DEPTH_MAX:
        return  # nearly always: it cannot be too deep
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_MAX):
        within = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for values in within for inner in values if isinstance(inner, dict | list)]
    if level:
        raise canonical_json.CanonicalJsonError(f"nested deeper than {DEPTH_MAX} levels")


def _correlation_id(request: Request) -> str:
    given = request.headers.get(CORRELATION_HEADER)
    if not given:
        return new_uuid()
    if len(given) > CORRELATION_CHARS_MAX or not given.isprintable():
        message = f"{CORRELATION_HEADER} may have {CORRELATION_CHARS_MAX} printable characters."
        raise Invalid.at(["header", CORRELATION_HEADER], message)
    return given


def _explained(error: msgspec.ValidationError) -> Invalid:
    path, message = locate(error)
    if missing := _MISSING.search(message):
        path.append(missing.group(1))
        return _invalid(path, f"{'.'.join(path)} is required.", "missing")
    return _invalid(path, f"{'.'.join(path)}: {message}." if path else f"{message}.", "value_error")


def locate(error: msgspec.ValidationError) -> tuple[list[str], str]:
    """Split ``Expected `int`, got `str` - at `$.retry.max_attempts` `` into the path and the message."""
    message = str(error)
    place = _PLACE.search(message)
    return _STEP.findall(place.group(1)) if place else [], _PLACE.sub("", message).replace("`", "'")


def _invalid(path: list[str], message: str, kind: str) -> Invalid:
    return Invalid.at(["body", *path], message, kind)
