"""What the operator's routes have in common: a gateway that can serve, and bodies."""

from __future__ import annotations

from typing import Any

import msgspec

from pyoco_server.canonical_json import CanonicalJsonError, check_members
from pyoco_server.errors import Invalid
from pyoco_server.http_api.routing.problems import problem


def decoded_body(body: bytes, kind: type[Any], err_id: str | None = None) -> Any:
    """Members we do not know are passed over; one of the wrong type is not."""
    try:
        asked = msgspec.json.decode(body, type=kind)
        check_members(body)  # the decoder takes the last of two
        return asked
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, CanonicalJsonError) as error:
        message = str(error) or "the body is nested too deeply"
        details = [problem("body", "", message)]
        raise Invalid("The body is not valid.", err_id=err_id, details=details) from error
