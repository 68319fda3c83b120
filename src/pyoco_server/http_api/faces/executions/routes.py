"""All routes of this face. Plain Starlette routes: commands are called all day."""

from __future__ import annotations

from pyoco_server.http_api.faces.executions import command_routes, reading_routes, stream_routes
from pyoco_server.http_api.faces.executions.graphs import routes

find_hot = command_routes.find_hot

ROUTES = [*command_routes.ROUTES, *reading_routes.ROUTES, *stream_routes.ROUTES, *routes.ROUTES]
