"""Which parameters a caller may give to a run."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.canonical_json import DEPTH_MAX
from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import Invalid, TooLarge


def check_params(params: dict[str, Any], config: NatsBackendConfig) -> None:
    encoded = _encoded(params)
    size = len(encoded)
    if _is_nested_too_deeply(encoded, params):
        raise invalid_member("params", f"params are nested deeper than {DEPTH_MAX} levels.")
    if size > config.params_max_bytes:
        raise TooLarge(
            f"params have {size} bytes; at most {config.params_max_bytes} are accepted. "
            "Store the data elsewhere and pass its address.",
            err_id="ERR-PYOCO-0002",
        )


def invalid_member(member: str, message: str) -> Invalid:
    return Invalid(message, details=[{"loc": [member], "msg": message, "type": "value_error"}])


def _encoded(params: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(params)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise invalid_member("params", f"params must be JSON: {error}.") from error


def _is_nested_too_deeply(encoded: bytes, params: dict[str, Any]) -> bool:
    """What can just be written here could not be read, or written, a few calls deeper elsewhere."""
    if encoded.count(b"[") + encoded.count(b"{") <= DEPTH_MAX:
        return False  # as for nearly everybody: there is nothing to measure
    level: list[Any] = [params]
    for _ in range(DEPTH_MAX):
        within = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [inner for values in within for inner in values if isinstance(inner, dict | list)]
        if not level:
            return False
    return True
