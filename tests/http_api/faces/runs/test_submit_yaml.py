"""POST /runs/yaml: what is accepted and stored, and every refusal with its place."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx
import msgspec
import pytest

from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.store.store import Store
from tests.conftest import NatsServer
from tests.http_api.serving import expect_error, serving
from tests.worker.stage import config_on, history, jobs_queued, lawful

WORKFLOW = b"""\
flow:
  graph: a >> b
  defaults: {x: 1, text: "\xe3\x81\x8c"}
tasks:
  a: {use: demo/a}
  b: {callable: "my.tasks:b"}
"""


async def post(
    client: httpx.AsyncClient, workflow: bytes | None = WORKFLOW, /, **fields: str
) -> httpx.Response:
    file = {} if workflow is None else {"workflow": ("flow.yaml", workflow, "application/x-yaml")}
    return await client.post("/runs/yaml", files=file, data={"flow_name": "nightly"} | fields)


async def test_a_workflow_is_stored_in_the_first_event_and_its_digest_in_the_snapshot(
    client: httpx.AsyncClient, store: Store
) -> None:
    answer = await post(client, tag="cpu")
    assert (answer.status_code, set(answer.json())) == (200, {"run_id", "status"})
    assert answer.json()["status"] == "PENDING"
    run_id = answer.json()["run_id"]
    stored = await lawful(store, run_id)
    assert (stored.flow_name, stored.tag, stored.tags) == ("nightly", "cpu", ["cpu"])
    assert stored.params == {"x": 1, "text": "が"}
    assert stored.workflow_yaml_sha256 == hashlib.sha256(WORKFLOW).hexdigest()
    assert stored.workflow_yaml_bytes == len(WORKFLOW)
    assert b"graph" not in msgspec.json.encode(stored)
    (begun,) = await history(store, run_id)
    assert isinstance(begun, RunSubmitted)
    assert begun.workflow_yaml == WORKFLOW.decode()
    assert await jobs_queued(store) == 1


async def test_a_run_of_a_workflow_shows_its_digest(client: httpx.AsyncClient) -> None:
    run_id = (await post(client)).json()["run_id"]
    shown = (await client.get(f"/runs/{run_id}")).json()
    assert shown["workflow_yaml_sha256"] == hashlib.sha256(WORKFLOW).hexdigest()
    assert (shown["workflow_yaml_bytes"], shown["tag"]) == (len(WORKFLOW), "default")
    assert "workflow_yaml" not in shown


async def test_the_name_is_trimmed_and_an_empty_tag_is_the_default(
    client: httpx.AsyncClient, store: Store
) -> None:
    answer = await post(client, flow_name="  nightly ", tag="", button="Send")
    stored = await lawful(store, answer.json()["run_id"])
    assert (stored.flow_name, stored.tag) == ("nightly", "default")


async def test_every_problem_of_a_workflow_has_its_place(client: httpx.AsyncClient, store: Store) -> None:
    answer = await post(client, b"flow:\n  graph: |\n    a >>\n    b\ntasks:\n  a: {run: x}\n")
    body = expect_error(answer, 422, "ERR-PYOCO-0002")
    assert body["detail"] == [
        {
            "loc": ["body", "workflow", "tasks", "a", "run"],
            "msg": "There is no key 'run' here; there is callable, use, inputs, outputs.",
            "type": "unknown_task_keys",
            "line": 6,
            "column": 7,
        },
        {
            "loc": ["body", "workflow", "flow", "graph"],
            "msg": "There is no 'b' in tasks; define it there, or correct the name.",
            "type": "unknown_task",
            "line": 4,
            "column": 5,
        },
    ]
    assert await jobs_queued(store) == 0


async def test_problems_have_their_places_in_other_formats_too(client: httpx.AsyncClient) -> None:
    file = {"workflow": ("flow.yaml", b"flow: {graph: a}")}
    headers = {"Accept": "application/problem+json"}
    answer = await client.post("/runs/yaml", files=file, data={"flow_name": "x"}, headers=headers)
    assert answer.status_code == 422
    assert "body.workflow.flow.graph, line 1, column 15: There is no 'a'" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("fields", "workflow", "problem"),
    [
        ({}, None, (["body", "workflow"], "missing")),
        ({"flow_name": " "}, WORKFLOW, (["body", "flow_name"], "value_error")),
        ({"flow_name": "x" * 300}, WORKFLOW, (["body", "flow_name"], "value_error")),
        ({"tag": "a.b"}, WORKFLOW, (["body", "tag"], "routing_tag")),
        ({"params": "{}"}, WORKFLOW, (["body", "params"], "extra_forbidden")),
        ({"tags": "a,b"}, WORKFLOW, (["body", "tags"], "extra_forbidden")),
        ({"flow_name": "x" * 9000}, WORKFLOW, (["body", "workflow"], "form_invalid")),
    ],
)
async def test_a_form_that_is_not_right_is_told_where(
    client: httpx.AsyncClient, fields: dict[str, str], workflow: bytes | None, problem: tuple[list[str], str]
) -> None:
    body = expect_error(await post(client, workflow, **fields), 422, "ERR-PYOCO-0002")
    assert [(one["loc"], one["type"]) for one in body["detail"]] == [problem]


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        ({"json": {"flow_name": "x"}}, "form_invalid"),
        ({"content": WORKFLOW, "headers": {"Content-Type": "application/x-yaml"}}, "form_invalid"),
        ({"content": WORKFLOW}, "form_invalid"),
        ({"data": {"flow_name": "x", "workflow": "flow: {}"}}, "value_error"),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}, "form_invalid"),
        ({"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}, "form_invalid"),
        ({"content": b"--y\r\n", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}, "missing"),
    ],
)
async def test_what_is_no_form_with_a_file_is_refused(
    client: httpx.AsyncClient, sent: dict[str, Any], kind: str
) -> None:
    body = expect_error(await client.post("/runs/yaml", **sent), 422, "ERR-PYOCO-0002")
    assert kind in {one["type"] for one in body["detail"]}


async def test_a_second_file_is_refused(client: httpx.AsyncClient) -> None:
    files = [("workflow", ("a.yaml", WORKFLOW)), ("workflow", ("b.yaml", WORKFLOW))]
    answer = await client.post("/runs/yaml", files=files, data={"flow_name": "x"})
    expect_error(answer, 422, "ERR-PYOCO-0002")


async def test_a_workflow_over_the_limit_is_413_at_the_very_byte(nats_server: NatsServer) -> None:
    config = config_on(nats_server, workflow_yaml_max_bytes=len(WORKFLOW))
    async with serving(config) as client:
        assert (await post(client, WORKFLOW)).status_code == 200
        body = expect_error(await post(client, WORKFLOW + b"\n"), 413, "ERR-PYOCO-0016")
        assert "PYOCO_WORKFLOW_YAML_MAX_BYTES" in body["detail"]
        assert body["message"] == "The workflow file is too large"
        japanese = await client.post(
            "/runs/yaml",
            files={"workflow": ("flow.yaml", WORKFLOW * 2)},
            data={"flow_name": "x"},
            headers={"Accept-Language": "ja"},
        )
        assert japanese.json()["message"] == "ワークフローファイルが大きすぎます"


async def test_a_workflow_that_grows_over_a_commit_is_413_too(
    client: httpx.AsyncClient, store: Store
) -> None:
    """Quotes and line ends take two bytes in the log, and defaults stand there twice."""
    ends = store.config.workflow_yaml_max_bytes - len(WORKFLOW) - 10
    expect_error(await post(client, WORKFLOW + b"\n" * ends), 413, "ERR-PYOCO-0016")
    plain = await post(client, WORKFLOW + b"# " + b"x" * (ends - 2))
    assert plain.status_code == 200
    large = b"flow:\n  graph: a\n  defaults: {x: '%s'}\ntasks: {a: {}}\n" % (b"x" * 200_000)
    expect_error(await post(client, large), 413, "ERR-PYOCO-0002")
    assert await jobs_queued(store) == 1
