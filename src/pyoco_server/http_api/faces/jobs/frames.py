"""WebSocket frames: decode those of clients, encode ours. Pure."""

from __future__ import annotations

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, check_members
from pyoco_server.errors import Invalid, PyocoError
from pyoco_server.http_api.faces.jobs.errors import error_object
from pyoco_server.http_api.responses.instants import rfc3339
from pyoco_server.json_value import JsonObject

FRAME_BYTES_MAX = 65_536


class NotJson(ValueError):
    """The frame is not JSON: the socket is closed."""


class Subscribe(msgspec.Struct, frozen=True, tag="subscribe"):
    since_token: str | None = msgspec.field(name="sinceToken", default=None)
    logs: bool = True


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    pass


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    pass


ClientFrame = Subscribe | Cancel | Ping


def client_frame(text: str) -> ClientFrame:
    try:
        decoded = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raise NotJson from None
    try:
        check_members(text.encode())  # the decoder accepts a repeated member
        frame: ClientFrame = msgspec.convert(decoded, ClientFrame)
    except (CanonicalJsonError, msgspec.ValidationError) as error:
        raise Invalid(
            f"This frame is not understood: {error}. Send subscribe, cancel or ping as its type."
        ) from None
    return frame


def status_frame(job: bytes) -> bytes:
    return b'{"type":"status","job":' + job + b"}"


def end_frame(job: bytes) -> bytes:
    return b'{"type":"end","job":' + job + b"}"


def log_frame(token: str, line: bytes) -> bytes:
    return b'{"type":"log","token":"' + token.encode() + b'","entry":' + line + b"}"


def heartbeat_frame(at: float) -> bytes:
    return _encode({"type": "heartbeat", "ts": rfc3339(at)})


def error_frame(error: PyocoError) -> bytes:
    return _encode({"type": "error", "error": error_object(error)})


def _encode(frame: JsonObject) -> bytes:
    return msgspec.json.encode(frame)
