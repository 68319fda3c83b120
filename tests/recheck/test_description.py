"""The description of the face has an example for every body, and they are what a gateway takes and gives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import (
    Conflict,
    Forbidden,
    Internal,
    Invalid,
    Limited,
    NotFound,
    PyocoError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from pyoco_server.http_api import create_app
from pyoco_server.http_api.faces.recheck.errors import TABLE
from pyoco_server.http_api.responses.error_table import FrameworkRefusal
from tests.conftest import NatsServer
from tests.recheck.faces import post, recheck_config, recheck_face, until_over
from tests.recheck.stage import CHART, GOOD, evaluating

CATALOGUE = """
strategies:
  - {id: strat.meanrev.m1, title: Mean reversion, instrument: USDJPY, tags: [daily],
     owner: desk-2, metadata: {since: 2019}}
"""


class Description:
    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema

    def bodies(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Of every operation of the face: where, and what it says of its JSON."""
        for path, methods in self.schema["paths"].items():
            if path.startswith(("/pdca/", "/gui/")):
                for method, operation in methods.items():
                    asked = {"request": operation["requestBody"]} if "requestBody" in operation else {}
                    for name, body in (asked | operation["responses"]).items():
                        content = body.get("content", {}).get("application/json")
                        if content is not None:
                            yield f"{method} {path} {name}", content

    def example(self, path: str, method: str, what: str) -> Any:
        operation = self.schema["paths"][path][method]
        body = operation["requestBody"] if what == "request" else operation["responses"][what]
        return body["content"]["application/json"]["example"]


def shape(value: Any) -> Any:
    """Members and kinds of values; of a list, that of its first one."""
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value[:1]]
    return (
        "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
    )


def test_every_body_has_an_example_that_its_schema_allows() -> None:
    description = Description(create_app(NatsBackendConfig()).openapi())
    bodies = dict(description.bodies())
    assert len(bodies) > 60
    for place, content in bodies.items():
        assert "example" in content, place
        whole = content["schema"] | {"components": description.schema["components"]}
        jsonschema_rs.validate(whole, content["example"], validate_formats=True)


async def test_a_gateway_answers_as_the_examples_say(nats_server: NatsServer, tmp_path: Path) -> None:
    (tmp_path / "strategies.yaml").write_text(CATALOGUE)
    config = recheck_config(nats_server, tmp_path)
    returned = {"metrics": GOOD, "artifacts": [CHART]}
    async with recheck_face(config) as face, evaluating(config, **{"meanrev.m1": returned}):
        description = Description((await face.get("/openapi.json")).json())

        def expect(answer: httpx.Response, path: str, method: str = "get", status: str = "200") -> Any:
            assert answer.status_code == int(status), answer.text
            assert shape(answer.json()) == shape(description.example(path, method, status)), path
            return answer.json()

        named = description.example("/pdca/recheck", "post", "request")
        assert (await post(face, named | {"dry_run": True})).status_code == 202
        many = description.example("/pdca/recheck_all", "post", "request")
        accepted = expect(
            await post(face, many, path="/pdca/recheck_all"), "/pdca/recheck_all", "post", "202"
        )
        expect(await post(face, named | {"dry_run": False}), "/pdca/recheck", "post", "202")
        status = await until_over(face, accepted["request_id"])
        for path in ("/pdca/recheck/{request_id}", "/gui/requests/{request_id}"):
            expect(await face.get(path.format(request_id=accepted["request_id"])), path)
        expect(await face.get("/gui/strategies"), "/gui/strategies")
        for below in ("", "/results"):
            expect(
                await face.get(f"/gui/strategies/strat.meanrev.m1{below}"),
                f"/gui/strategies/{{strategy_id}}{below}",
            )
        artifact = status["artifacts"][0]["artifact_id"]
        expect(await face.get(f"/gui/artifacts/{artifact}/url"), "/gui/artifacts/{artifact_id}/url")
        written = description.example("/gui/strategies/{strategy_id}", "put", "request")
        put = await face.put(f"/gui/strategies/{written['id']}", json=written)
        assert expect(put, "/gui/strategies/{strategy_id}", "put") == written


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (Invalid("no"), 400, "BAD_REQUEST"),
        (TooLarge("no"), 400, "BAD_REQUEST"),
        (FrameworkRefusal(405, "no"), 400, "BAD_REQUEST"),
        (FrameworkRefusal(413, "no"), 400, "BAD_REQUEST"),
        (FrameworkRefusal(415, "no"), 400, "BAD_REQUEST"),
        (Unauthenticated("no"), 401, "UNAUTHORIZED"),
        (Forbidden("no"), 403, "FORBIDDEN"),
        (NotFound("no"), 404, "NOT_FOUND"),
        (Conflict("no"), 409, "IDEMPOTENCY_CONFLICT"),
        (Limited("no", retry_after_sec=3), 429, "RATE_LIMITED"),
        (Internal("no"), 500, "INTERNAL_ERROR"),
        (Unavailable("no"), 502, "AIRFLOW_DOWN"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, PyocoError) else str(value),
)
def test_errors_are_those_of_the_document(error: PyocoError, status: int, word: str) -> None:
    assert TABLE.status_of(error) == status
    retry = {"retry_after": 3} if status == 429 else {}
    assert TABLE.body(error, "en") == {"error": word, "message": "no"} | retry
