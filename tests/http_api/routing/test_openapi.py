"""The description of the API is whole, leads nowhere astray, and describes what is served."""

from __future__ import annotations

from typing import Any

import httpx
import yaml

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.http_api.serving import serving


async def test_openapi_describes_every_route_and_every_reference_leads_somewhere(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/openapi.json")
    assert answer.status_code == 200
    schema = answer.json()
    assert schema["openapi"].startswith("3.")
    operations = {
        (path, method)
        for path, methods in schema["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert operations >= {
        ("/health", "get"),
        ("/ready", "get"),
        ("/runs", "post"),
        ("/runs", "get"),
        ("/runs/{run_id}", "get"),
        ("/runs/{run_id}/tasks", "get"),
        ("/runs/{run_id}/cancel", "post"),
        ("/runs/{run_id}/watch", "get"),
        ("/runs/{run_id}/result", "get"),
        ("/runs/{run_id}/retry", "post"),
    }
    names = [
        schema["paths"][path][method].get("operationId", f"{method} {path}")
        for path, method in sorted(operations)
    ]
    assert len(set(names)) == len(names)
    for path, method in operations:
        _expect_whole(path, schema["paths"][path][method])
    for reference in _references(schema):
        _expect_found(schema, reference)


async def test_the_described_routes_are_those_that_are_served(config: NatsBackendConfig) -> None:
    app = create_app(config)
    served = {route.path.replace(":path}", "}") for route in app.routes if hasattr(route, "path")}
    unnamed = {"/openapi.json", "/openapi.yaml", "/docs", "/", "/static/{name}"}
    async with serving(config) as client:
        described = set((await client.get("/openapi.json")).json()["paths"])
    assert described == served - unnamed


async def test_the_description_can_be_had_as_yaml(client: httpx.AsyncClient) -> None:
    answer = await client.get("/openapi.yaml")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/yaml")
    assert yaml.safe_load(answer.content) == (await client.get("/openapi.json")).json()
    assert b"&id" not in answer.content


def _expect_whole(path: str, operation: dict[str, Any]) -> None:
    assert operation["summary"]
    assert {"101", "200", "201", "202", "204"} & set(operation["responses"])
    assert all(response["description"] for response in operation["responses"].values())
    wanted = {part[1:-1] for part in path.split("/") if part.startswith("{")}
    found = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path"}
    assert wanted == found


def _references(value: Any) -> list[str]:
    if isinstance(value, list):
        return [found for one in value for found in _references(one)]
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for one in value.values() for found in _references(one)]
    return []


def _expect_found(schema: dict[str, Any], reference: str) -> None:
    place: Any = schema
    for step in reference.removeprefix("#/").split("/"):
        assert step in place, reference
        place = place[step]
