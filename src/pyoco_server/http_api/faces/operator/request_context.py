"""What the operator's routes have in common: a gateway that can serve, and the words of a query."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, check_members
from pyoco_server.errors import Invalid
from pyoco_server.http_api.context import ready_gateway as ready_gateway

INVALID = "ERR-PYOCO-0002"

_YES = frozenset({"true", "1", "yes", "on", "t", "y"})
_NO = frozenset({"false", "0", "no", "off", "f", "n"})
_DIGITS_MAX = 18


def whole_number(
    asked: Mapping[str, str], name: str, *, default: int, most: int, err_id: str = INVALID
) -> int:
    raw = asked.get(name)
    if raw is None:
        return default
    if not raw.isascii() or not raw.isdigit() or len(raw) > _DIGITS_MAX or not 1 <= int(raw) <= most:
        raise wrong("query", name, f"{name} must be a whole number from 1 to {most}.", err_id)
    return int(raw)


def flag(asked: Mapping[str, str], name: str, *, default: bool, err_id: str = INVALID) -> bool:
    return read_flag("query", name, asked.get(name), default=default, err_id=err_id)


def read_flag(place: str, name: str, raw: str | None, *, default: bool, err_id: str = INVALID) -> bool:
    if raw is None:
        return default
    if raw.strip().lower() in _YES | _NO:
        return raw.strip().lower() in _YES
    raise wrong(place, name, f"{name} must be true or false.", err_id)


def wrong(place: str, name: str, message: str, err_id: str = INVALID) -> Invalid:
    problem = {"loc": [place, name], "msg": message, "type": "value_error"}
    return Invalid(message, err_id=err_id, details=[problem])


def decoded_body(body: bytes, kind: type[Any], err_id: str = INVALID) -> Any:
    """Members we do not know are passed over; one of the wrong type is not."""
    try:
        asked = msgspec.json.decode(body, type=kind)
        check_members(body)  # the decoder takes the last of two
        return asked
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CanonicalJsonError) as error:
        message = str(error) or "the body is nested too deeply"
        problem = {"loc": ["body"], "msg": message, "type": "value_error"}
        raise Invalid("The body is not valid.", err_id=err_id, details=[problem]) from error
