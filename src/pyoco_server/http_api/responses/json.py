"""A value as a JSON response."""

from __future__ import annotations

import msgspec
from starlette.responses import Response


def json_answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")
