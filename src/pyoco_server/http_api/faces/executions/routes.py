"""All routes of this face. Plain Starlette routes: commands are called all day."""

from __future__ import annotations

from pyoco_server.http_api.faces.executions import command_routes, graph_routes, reading_routes, stream_routes

find_hot = command_routes.find_hot

ROUTES = [*command_routes.ROUTES, *reading_routes.ROUTES, *stream_routes.ROUTES, *graph_routes.ROUTES]
