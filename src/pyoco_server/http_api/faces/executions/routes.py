"""All operations of the executions face."""

from __future__ import annotations

from pyoco_server.http_api.faces.executions import command_routes, reading_routes, stream_routes
from pyoco_server.http_api.faces.executions.graphs import routes as graph_routes
from pyoco_server.http_api.faces.executions.schemas import SCHEMAS
from pyoco_server.http_api.routing.face import Face

FACE = Face(
    tag="executions",
    error="ExecutionError",
    operations=[
        *command_routes.OPERATIONS,
        *reading_routes.OPERATIONS,
        *stream_routes.OPERATIONS,
        *graph_routes.OPERATIONS,
    ],
    schemas=SCHEMAS,
)
