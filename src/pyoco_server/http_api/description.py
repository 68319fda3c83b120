"""`/openapi.json` and `/openapi.yaml`: the description of the API, derived from its operations."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.document import YAML_TYPE, as_yaml


async def openapi_json(request: Request) -> Response:
    return json_answer(_described(request))


async def openapi_yaml(request: Request) -> Response:
    # In a thread: it takes about 100 ms.
    body = await asyncio.to_thread(as_yaml, _described(request))
    return Response(body, media_type=YAML_TYPE)


ROUTES = [
    Route("/openapi.json", openapi_json, methods=["GET"]),
    Route("/openapi.yaml", openapi_yaml, methods=["GET"]),
]


def _described(request: Request) -> dict[str, Any]:
    """Behind a proxy that strips a prefix, paths are below that prefix."""
    described: dict[str, Any] = request.app.openapi()
    prefix = request.scope.get("root_path", "").rstrip("/")
    return described | {"servers": [{"url": prefix}]} if prefix else described
