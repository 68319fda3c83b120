"""Whatever the description allows, and what it does not: no answer is a 5xx, and each is as described."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis.builder import (
    InvalidHeadersExampleMark,
    InvalidRegexMark,
    MissingPathParameters,
    NonSerializableMark,
)
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from tests.conftest import NatsServer, config_for
from tests.promises.stack import Gateway, processes

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
EXAMPLES = 25
ENDLESS = "/stream"
_turn = itertools.count()

# These are always there, and have no end to wait for: test_run_stream.py and test_overview.py read them.
LISTS_AS_THEY_CHANGE = ["/runs/stream", "/workers/stream"]

DESCRIPTION = create_app(NatsBackendConfig()).openapi()
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in DESCRIPTION["paths"].items()
    if path not in LISTS_AS_THEY_CHANGE
    for method in methods
]
# What schemathesis notes on a test for which it could not make all cases.
INCOMPLETE = (InvalidHeadersExampleMark, InvalidRegexMark, MissingPathParameters, NonSerializableMark)


@schemathesis.serializer("application/x-ndjson")
def lines_of_json(_context: object, value: object) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def gateway(nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("fuzz")
    with processes(config_for(nats_server), folder) as started:
        running = started.gateway()
        _wait_until_ready(running.url)
        yield running


@pytest.fixture
def known(gateway: Gateway) -> dict[str, str]:
    """Things that are there, by the names that addresses have for them."""
    return {"graphId": "g", "nodeId": "a", "executionId": _an_execution(gateway.url)}


@pytest.mark.parametrize("label", OPERATIONS)
def test_no_request_is_answered_otherwise_than_described(
    label: str, gateway: Gateway, known: dict[str, str]
) -> None:
    # Not `schema.parametrize()`: it makes the cases of all operations when tests are collected, and every
    # test process collects all tests.
    check_operation = _fuzz_test(label)
    check_operation(gateway=gateway, known=known)
    assert [mark for mark in INCOMPLETE if mark.is_set(check_operation)] == []


def test_the_operations_are_those_that_the_fuzzer_finds() -> None:
    found = _schema().exclude(path=LISTS_AS_THEY_CHANGE).get_all_operations()
    assert sorted(operation.ok().label for operation in found) == sorted(OPERATIONS)


@cache
def _schema() -> Any:
    return schemathesis.openapi.from_dict(DESCRIPTION)


def _fuzz_test(label: str) -> Callable[..., None]:
    """The test that schemathesis makes for an operation: its examples, its boundaries, and random cases."""
    method, path = label.split(" ", 1)
    load_all_checks()
    made: Callable[..., None] = build_operation_test(
        config=_schema().config,
        operation=_schema()[path][method],
        test_func=_check_answer,
        given_kwargs={},
        feedback=FeedbackSources(constants_value_source=make_constants_value_source(_schema())),
    )
    return made


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[*HealthCheck],
    database=None,
    derandomize=True,
)
def _check_answer(case: schemathesis.Case[Any], gateway: Gateway, known: dict[str, str]) -> None:
    # Of what chance makes up there is nothing: every other request is about something that is there.
    if next(_turn) % 2 and not case.path.endswith(ENDLESS):
        case.path_parameters |= {name: known[name] for name in known.keys() & case.path_parameters}
    answer = case.call(base_url=gateway.url, timeout=30)
    # The schema of a stream is that of its text; schemathesis compares it with each event.
    is_stream = answer.headers.get("content-type", [""])[0].startswith("text/event-stream")
    checks = [one for one in CHECKS if not (is_stream and one is response_schema_conformance)]
    case.validate_response(answer, checks=checks)


def _wait_until_ready(url: str) -> None:
    transport = httpx.HTTPTransport(retries=20)
    with httpx.Client(transport=transport, timeout=30) as client:
        for _ in range(200):
            if client.get(f"{url}/ready").status_code == 200:
                return
    raise AssertionError("the gateway did not get ready")


def _an_execution(url: str) -> str:
    """In the middle of things: one node can be worked at, another one waits."""
    nodes = [{"id": "a", "retry": {"max_attempts": 100}}, {"id": "w", "type": "wait"}]
    headers = {"X-Idempotency-Key": f"fuzz-{next(_turn)}"}
    with httpx.Client(base_url=url, timeout=30) as client:
        client.put("/graphs/g", json={"nodes": nodes})
        created = client.post("/executions", json={"graphId": "g"}, headers=headers)
        execution_id = str(created.json()["executionId"])
        assert client.post(f"/executions/{execution_id}/start", headers=headers).status_code == 202
    return execution_id
