"""A refused parameter or body as an error: one form for all faces."""

from __future__ import annotations

from typing import Any

from pyoco_server.errors import Invalid


def problem(place: str, name: str, message: str) -> dict[str, Any]:
    return {"loc": [place, name] if name else [place], "msg": message, "type": "value_error"}


def invalid(place: str, name: str, message: str, err_id: str | None = None) -> Invalid:
    """`place`: query, header, path or body. `name` empty: all of it. `err_id` None: the default id."""
    return Invalid(message, err_id=err_id, details=[problem(place, name, message)])
