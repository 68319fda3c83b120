"""`/graphs`: versions that never change, both notations, and refusals that name the node."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest

from pyoco_server.errors import Invalid
from pyoco_server.http_api.faces.executions.graphs.document import graph_tasks
from pyoco_server.lifecycle.graph import Graph, GraphTask, graph_problems
from tests.conftest import NatsServer
from tests.http_api.faces.executions.driving import expect_refusal
from tests.http_api.tenants import as_tenants

CHAIN = {
    "nodes": [{"id": "a"}, {"id": "b", "after": ["a"], "retry": {"max_attempts": 3, "backoff_sec": 0.5}}]
}
YAML = """\
nodes:
  - id: a
  - id: b
    after: [a]
    retry: {max_attempts: 3, backoff_sec: 0.5}
"""
AS_YAML = {"Content-Type": "application/yaml"}


async def test_a_graph_is_registered_once_for_all_who_write_it_the_same(client: httpx.AsyncClient) -> None:
    first = await client.put("/graphs/etl.daily", json=CHAIN)
    again = await client.put("/graphs/etl.daily", content=YAML, headers=AS_YAML)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json() == (await client.get("/graphs/etl.daily")).json()
    body = first.json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("createdAt"))
    assert re.fullmatch("sha256:[0-9a-f]{64}", body.pop("digest"))
    assert body == {
        "graphId": "etl.daily",
        "version": 1,
        "nodes": [
            {"id": "a", "type": "task", "after": [], "join": "all_success"},
            {
                "id": "b",
                "type": "task",
                "after": ["a"],
                "join": "all_success",
                "retry": {"max_attempts": 3, "backoff_sec": 0.5},
            },
        ],
    }
    assert first.headers["location"] == "/graphs/etl.daily?version=1"


async def test_versions_stay_what_they_were(client: httpx.AsyncClient) -> None:
    for names in (["a"], ["a", "b"], ["a"]):
        answer = await client.put("/graphs/g", json={"nodes": [{"id": name} for name in names]})
        assert answer.status_code == 201
    for version, count in ((1, 1), (2, 2), (3, 1)):
        shown = (await client.get(f"/graphs/g?version={version}")).json()
        assert (shown["version"], len(shown["nodes"])) == (version, count)
    assert (await client.get("/graphs/g")).json()["version"] == 3
    expect_refusal(await client.get("/graphs/g?version=4"), 404, "GRAPH_NOT_FOUND")
    expect_refusal(await client.get("/graphs/g?version=0"), 422, "INVALID_REQUEST")
    expect_refusal(await client.get("/graphs/nothing"), 404, "GRAPH_NOT_FOUND")


async def test_what_is_shown_can_be_sent_back(client: httpx.AsyncClient) -> None:
    first = await client.put("/graphs/g", json=CHAIN)
    again = await client.put("/graphs/g", json=first.json())
    assert (again.status_code, again.json()["version"]) == (200, 1)
    other = await client.put("/graphs/h", json=first.json())
    assert "graphId" in expect_refusal(other, 422, "INVALID_REQUEST")["message"]


async def test_many_at_once_make_one_version_of_the_same_and_one_each_of_others(
    client: httpx.AsyncClient,
) -> None:
    same = await asyncio.gather(*(client.put("/graphs/same", json=CHAIN) for _ in range(10)))
    assert {answer.json()["version"] for answer in same} == {1}
    graphs = [{"nodes": [{"id": f"n{number}"}]} for number in range(8)]
    others = await asyncio.gather(*(client.put("/graphs/others", json=graph) for graph in graphs))
    assert sorted(answer.json()["version"] for answer in others) == list(range(1, 9))
    for answer in others:
        shown = answer.json()
        found = await client.get(f"/graphs/others?version={shown['version']}")
        assert found.json() == shown


def _node(**members: Any) -> dict[str, Any]:
    return {"nodes": [{"id": "a"}, {"id": "b"} | members]}


@pytest.mark.parametrize(
    ("graph", "node", "says"),
    [
        (_node(after=["c"]), "b", "'c'"),
        (_node(after=["a", "a"]), "b", "twice"),
        (_node(id="a"), "a", "twice"),
        (_node(id="b/c"), "b/c", "letters"),
        (_node(id=7), None, "Expected 'str'"),
        (_node(after="a"), "b", "Expected 'array'"),
        (_node(type="fork"), "b", "Invalid enum value 'fork'"),
        (_node(join="most"), "b", "Invalid enum value 'most'"),
        (_node(retry={"max_attempts": 0}), "b", "max_attempts"),
        (_node(retry={"attempts": 2}), "b", "it has max_attempts"),
        (_node(retry={"factor": 0.5}), "b", "factor"),
        (_node(timeout_sec=0), "b", "timeout_sec"),
        (_node(timeout_sec="1"), "b", "Expected 'float | null'"),
        (_node(retries=2), "b", "a node has no such member"),
        (_node(type="wait", timeout_sec=3), "b", "wait_timeout_sec"),
        (_node(type="wait", retry={"max_attempts": 2}), "b", "not tried again"),
        (_node(on_timeout="succeed"), "b", "without wait_timeout_sec"),
        (_node(prompt="sure?"), "b", "Expected 'object | null'"),
        ({"nodes": [{"id": "a", "after": ["b"]}, {"id": "b", "after": ["a"]}]}, "a", "comes after itself"),
        ({"nodes": [{"id": "a", "after": ["a"]}]}, "a", "comes after itself"),
        ({"nodes": []}, None, "1 to 1000"),
        ({"nodes": [{"id": f"n{number}"} for number in range(1001)]}, None, "1 to 1000"),
        ({"nodes": [{"id": "a"}], "edges": []}, None, "no such member"),
        ({"nodes": ["a"]}, None, "Expected 'object'"),
        ({}, None, "1 to 1000"),
        ([], None, "object"),
    ],
)
def test_a_graph_that_does_not_hold_together_is_refused_with_its_node(
    graph: Any, node: str | None, says: str
) -> None:
    with pytest.raises(Invalid) as refused:
        graph_tasks(json.dumps(graph).encode(), graph_id="g", is_yaml=False)
    assert says in refused.value.message
    assert isinstance(refused.value.details, list)
    assert refused.value.details[0].get("nodeId") == node
    assert node is None or f"node {node}" in refused.value.message


async def test_a_graph_that_was_refused_is_not_there(client: httpx.AsyncClient) -> None:
    error = expect_refusal(await client.put("/graphs/g", json=_node(after=["c"])), 422, "INVALID_REQUEST")
    assert error["message"].startswith("The graph is not valid: node b, nodes[1]: ")
    (problem,) = error["details"]["problems"]
    assert (problem["nodeId"], problem["loc"]) == ("b", ["body", "nodes", 1])
    expect_refusal(await client.get("/graphs/g"), 404, "GRAPH_NOT_FOUND")


def test_the_node_that_is_named_stands_in_the_circle() -> None:
    behind = GraphTask(id="behind", after=("x",))
    circle = (GraphTask(id="x", after=("y", "root")), GraphTask(id="y", after=("x",)), GraphTask(id="root"))
    (problem,) = graph_problems(Graph(id="g", version=1, nodes=(behind, *circle)))
    assert problem.task in ("x", "y")
    assert problem.message in ("It comes after itself: x → y → x.", "It comes after itself: y → x → y.")


async def test_yaml_is_refused_with_line_and_column(client: httpx.AsyncClient) -> None:
    wrong = await client.put("/graphs/g", content=YAML.replace("[a]", "[c]"), headers=AS_YAML)
    (problem,) = expect_refusal(wrong, 422, "INVALID_REQUEST")["details"]["problems"]
    assert (problem["nodeId"], problem["line"], problem["column"]) == ("b", 3, 5)
    for text, kind in (
        ("nodes: *x", "alias_refused"),
        ("nodes: [", "invalid_yaml"),
        ("a: 1\na: 2", "duplicate_key"),
    ):
        broken = await client.put("/graphs/g", content=text, headers=AS_YAML)
        assert expect_refusal(broken, 422, "INVALID_REQUEST")["details"]["problems"][0]["type"] == kind
    expect_refusal(await client.put("/graphs/g", content="", headers=AS_YAML), 422, "INVALID_REQUEST")


async def test_a_thousand_nodes_written_out_are_read_in_both_notations(client: httpx.AsyncClient) -> None:
    nodes = [
        {"id": f"n{n}", "after": [f"n{n - 1}"] if n else [], "retry": {"max_attempts": 2}}
        for n in range(1000)
    ]
    as_json = await client.put("/graphs/long", json={"nodes": nodes})
    lines = [
        f"- {{id: n{n}, after: [{f'n{n - 1}' if n else ''}], retry: {{max_attempts: 2}}}}"
        for n in range(1000)
    ]
    as_yaml = await client.put("/graphs/long", content="\n".join(["nodes:", *lines]), headers=AS_YAML)
    assert (as_json.status_code, as_yaml.status_code) == (201, 200)


async def test_what_is_no_graph_at_all_is_refused(client: httpx.AsyncClient) -> None:
    large = b'{"nodes": [{"id": "a", "prompt": {"p": "' + b"x" * 300_000 + b'"}}]}'
    for body, kind, status, code in (
        (b'{"nodes": [{"id": "a", "id": "b"}]}', "application/json", 422, "INVALID_REQUEST"),
        (b'{"nodes": NaN}', "application/json", 422, "INVALID_REQUEST"),
        (b"\xff", "application/json; charset=utf-8", 422, "INVALID_REQUEST"),
        (b"nodes: []", "application/json", 422, "INVALID_REQUEST"),
        (b"<graph/>", "text/xml", 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b" " * 2_000_000, "application/json", 413, "TOO_LARGE"),
        (large, "application/json", 413, "TOO_LARGE"),
    ):
        answer = await client.put("/graphs/g", content=body, headers={"Content-Type": kind})
        expect_refusal(answer, status, code)


async def test_ids_that_cannot_be_are_refused_where_one_is_made_and_missing_where_one_is_sought(
    client: httpx.AsyncClient,
) -> None:
    for odd in ("flow:x", "a%2Fb", "x" * 65, "%E3%81%82"):
        put, got = await client.put(f"/graphs/{odd}", json=CHAIN), await client.get(f"/graphs/{odd}")
        assert put.status_code in (404, 422)
        assert got.status_code == 404
    expect_refusal(await client.delete("/graphs/g"), 405, "METHOD_NOT_ALLOWED")


async def test_dots_in_ids_are_no_borders(client: httpx.AsyncClient) -> None:
    for graph_id in ("a.b", "a", "..", "a.b.1", "-", "_"):
        assert (await client.put(f"/graphs/{graph_id.replace('.', '%2E')}", json=CHAIN)).status_code == 201
    listed = (await client.get("/graphs")).json()["graphs"]
    assert {one["graphId"] for one in listed} == {"a.b", "a", "..", "a.b.1", "-", "_"}
    assert all((one["version"], one["nodeCount"]) == (1, 2) for one in listed)


async def test_graphs_are_listed_in_pages(client: httpx.AsyncClient) -> None:
    for number in range(7):
        await client.put(f"/graphs/g{number}", json=CHAIN)
    found: list[str] = []
    cursor = ""
    while True:
        page = (await client.get(f"/graphs?limit=3{cursor}")).json()
        found += [one["graphId"] for one in page["graphs"]]
        if "nextCursor" not in page:
            break
        cursor = f"&cursor={page['nextCursor']}"
    assert found == [f"g{number}" for number in range(7)]
    expect_refusal(await client.get("/graphs?cursor=x"), 422, "INVALID_REQUEST")
    expect_refusal(await client.get("/graphs?limit=201"), 422, "INVALID_REQUEST")


async def test_a_tenants_graphs_are_its_own(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "red", "blue") as (_, (red, blue)):
        assert (await red.put("/graphs/g", json=CHAIN)).status_code == 201
        expect_refusal(await blue.get("/graphs/g"), 404, "GRAPH_NOT_FOUND")
        assert (await blue.get("/graphs")).json() == {"graphs": []}
        assert (await blue.put("/graphs/g", json={"nodes": [{"id": "z"}]})).json()["version"] == 1
        assert len((await red.get("/graphs/g")).json()["nodes"]) == 2


async def test_graphs_need_the_scopes_of_runs(nats_server: NatsServer) -> None:
    async with as_tenants(nats_server, "red", scopes=("runs:read",)) as (_, (reader,)):
        assert (await reader.get("/graphs")).status_code == 200
        expect_refusal(await reader.put("/graphs/g", json=CHAIN), 403, "FORBIDDEN")
