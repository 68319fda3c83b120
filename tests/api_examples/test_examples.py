"""Every request and answer in the OpenAPI document has an example, and a gateway answers as they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.routing.examples import FOLDER
from tests.api_examples.recorded import record, written
from tests.conftest import NatsServer


async def test_a_gateway_answers_as_the_examples_say(nats_server: NatsServer, tmp_path: Path) -> None:
    recorded = {f"{tag}.json": written(found) for tag, found in (await record(nats_server, tmp_path)).items()}
    stored = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert set(recorded) == set(stored), "run make docs"
    for name, text in recorded.items():
        assert text.splitlines() == stored[name].splitlines(), f"{name}: run make docs"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(NatsBackendConfig()).openapi()


def test_every_request_and_every_answer_has_an_example(document: dict[str, Any]) -> None:
    missing = [place for place, content in _contents(document) if "example" not in content]
    missing += [
        f"{place} {param['name']}"
        for place, operation in _operations(document)
        for param in operation.get("parameters", ())
        if param["required"] and "example" not in param
    ]
    assert not missing


def test_every_example_is_allowed_by_its_schema(document: dict[str, Any]) -> None:
    wrong = []
    described = [*_contents(document), *_params(document)]
    assert len(described) > 700
    for place, content in described:
        if "example" in content:
            whole = content["schema"] | {"components": document["components"]}
            validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
            wrong += [f"{place}: {error.message}" for error in validator.iter_errors(content["example"])]
    assert not wrong


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def _contents(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Bodies of requests and answers, each with its media type."""
    for place, operation in _operations(document):
        asked = {"request": operation["requestBody"]} if "requestBody" in operation else {}
        for name, body in (asked | operation["responses"]).items():
            for kind, content in body.get("content", {}).items():
                yield f"{place} {name} {kind}", content


def _params(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, operation in _operations(document):
        for param in operation.get("parameters", ()):
            yield f"{place} {param['name']}", param
