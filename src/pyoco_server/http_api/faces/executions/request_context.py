"""What the routes of this face share: histories, ids in paths, content types."""

from __future__ import annotations

from typing import cast

from starlette.requests import Request

from pyoco_server.http_api.faces.executions.errors import ExecutionNotFound
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.requests.bodies import is_json
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from pyoco_server.names import is_run_id
from pyoco_server.operations.executions.histories import Histories

JSON = frozenset({"application/json"})
YAML = frozenset({"application/yaml", "application/x-yaml", "text/yaml"})
NAME_CHARS_SHOWN = 64


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
