"""Every route belongs to one class: public, of the caller's tenant, or for what reaches beyond a tenant.

The table below is complete: a route that is not in it fails the first test. The second one walks all of them
with the unscoped key of another tenant and compares everything that the first tenant has before and after.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from pyoco_server.http_api import create_app
from pyoco_server.store.queue.dead_letters import DeadLetter
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.http_api.serving import serving
from tests.keyring import new_key
from tests.store.fleet.wheel_making import file_name, wheel_bytes
from tests.worker.stage import config_on

MARK = "marked-for-a"
WHEEL = file_name("demo", "1.0")


class Reach(Enum):
    PUBLIC = auto()
    TENANT = auto()  # the caller's own things; another tenant's are not there
    OWN = auto()  # the caller's own, by its very key
    SHARED = auto()  # what all tenants share, without anything of another tenant
    BEYOND = auto()  # needs a scope that is given by name
    SIGNED = auto()  # the address itself is the proof


class Route(NamedTuple):
    reach: Reach
    body: Any = None
    scope: str = ""


TENANT = Route(Reach.TENANT)
KEYED = {"X-Idempotency-Key": "b-was-here", "Idempotency-Key": "b-was-here"}
YAML = "flow: {graph: noop}\ntasks: {noop: {use: noop}}\n"
RECHECK = {"strategies": ["strat.a"], "reason": "x", "dry_run": True}

ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/health"): Route(Reach.PUBLIC),
    ("GET", "/ready"): Route(Reach.PUBLIC),
    ("GET", "/caller"): Route(Reach.OWN),
    ("GET", "/idempotency/{key}"): Route(Reach.OWN),
    ("GET", "/workers"): Route(Reach.SHARED),
    ("GET", "/workers/stream"): Route(Reach.SHARED),
    ("GET", "/workers/tags"): Route(Reach.SHARED),
    ("GET", "/flows"): Route(Reach.SHARED),
    ("GET", "/metrics"): Route(Reach.SHARED),
    ("PATCH", "/workers/{worker_id}"): Route(Reach.BEYOND, {"hidden": True}, "admin"),
    ("GET", "/system"): Route(Reach.BEYOND, scope="ops:read_all"),
    ("POST", "/wheels"): Route(Reach.BEYOND, scope="wheels:write"),
    ("DELETE", "/wheels/{wheel_name}"): Route(Reach.BEYOND, scope="wheels:write"),
    ("GET", "/wheels"): TENANT,
    ("GET", "/wheels/history"): TENANT,
    ("GET", "/wheels/{wheel_name}"): TENANT,
    ("GET", "/dlq"): TENANT,
    ("GET", "/dlq/{letter_id}"): TENANT,
    ("POST", "/dlq/{letter_id}/redrive"): TENANT,
    ("POST", "/dlq/{letter_id}/dismiss"): TENANT,
    ("GET", "/approvals"): TENANT,
    ("GET", "/approvals/history"): TENANT,
    ("POST", "/runs"): Route(Reach.TENANT, {"flow_name": "of-b"}),
    ("GET", "/runs"): TENANT,
    ("POST", "/runs/yaml"): TENANT,
    ("POST", "/runs/batch"): Route(Reach.TENANT, [{"flow_name": "of-b"}]),
    ("GET", "/batches"): TENANT,
    ("GET", "/batches/{batch_id}"): TENANT,
    ("GET", "/batches/{batch_id}/watch"): TENANT,
    ("POST", "/batches/{batch_id}/cancel"): TENANT,
    ("GET", "/runs/{run_id}"): TENANT,
    ("GET", "/runs/{run_id}/tasks"): TENANT,
    ("POST", "/runs/{run_id}/cancel"): Route(Reach.TENANT, {}),
    ("GET", "/runs/stream"): TENANT,
    ("GET", "/runs/stats"): TENANT,
    ("GET", "/runs/{run_id}/graph"): TENANT,
    ("GET", "/runs/{run_id}/watch"): TENANT,
    ("GET", "/runs/{run_id}/result"): TENANT,
    ("POST", "/runs/{run_id}/retry"): Route(Reach.TENANT, {}),
    ("GET", "/runs/{run_id}/logs"): TENANT,
    ("GET", "/runs/{run_id}/logs/stream"): TENANT,
    ("POST", "/tickets"): Route(Reach.TENANT, {"path": "/runs/{run_id}/watch"}),
    ("POST", "/schedules/yaml"): TENANT,
    ("POST", "/schedules"): Route(Reach.TENANT, {"flow_name": "of-b", "interval_seconds": 3600}),
    ("GET", "/schedules"): TENANT,
    ("GET", "/schedules/preview"): Route(Reach.SHARED),
    ("POST", "/schedules/{schedule_id}/run"): TENANT,
    ("GET", "/schedules/{schedule_id}/runs"): TENANT,
    ("DELETE", "/schedules/{schedule_id}"): TENANT,
    ("GET", "/schedules/{schedule_id}"): TENANT,
    ("PATCH", "/schedules/{schedule_id}"): Route(Reach.TENANT, {"revision": 1, "name": "of-b"}),
    ("POST", "/schedules/{schedule_id}/pause"): TENANT,
    ("POST", "/schedules/{schedule_id}/resume"): TENANT,
    ("POST", "/schedules/{schedule_id}/backfill"): Route(
        Reach.TENANT, {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    ),
    ("DELETE", "/schedules/{schedule_id}/backfill"): TENANT,
    ("GET", "/schedules/{schedule_id}/occurrences"): TENANT,
    ("POST", "/executions"): Route(Reach.TENANT, {"graphId": MARK}),
    ("GET", "/executions"): TENANT,
    ("POST", "/executions/{executionId}/start"): Route(Reach.TENANT, {}),
    ("POST", "/executions/{executionId}/cancel"): Route(Reach.TENANT, {}),
    ("POST", "/executions/{executionId}/archive"): Route(Reach.TENANT, {}),
    ("POST", "/executions/{executionId}/nodes/{nodeId}/start"): Route(
        Reach.TENANT, {"attempt": 1, "workerId": "w"}
    ),
    ("POST", "/executions/{executionId}/nodes/{nodeId}/progress"): Route(
        Reach.TENANT, {"attempt": 1, "progress": 50}
    ),
    ("POST", "/executions/{executionId}/nodes/{nodeId}/wait"): Route(
        Reach.TENANT, {"attempt": 1, "waitKey": "k", "prompt": {}}
    ),
    ("POST", "/executions/{executionId}/nodes/{nodeId}/resume"): Route(
        Reach.TENANT, {"waitKey": "k", "resumeKey": "r"}
    ),
    ("POST", "/executions/{executionId}/nodes/{nodeId}/success"): Route(
        Reach.TENANT, {"attempt": 1, "output": 1}
    ),
    ("POST", "/executions/{executionId}/nodes/{nodeId}/fail"): Route(
        Reach.TENANT, {"attempt": 1, "error": {"code": "X", "message": "x"}}
    ),
    ("GET", "/executions/{executionId}"): TENANT,
    ("GET", "/executions/{executionId}/events"): TENANT,
    ("GET", "/executions/{executionId}/state"): TENANT,
    ("GET", "/executions/{executionId}/stream"): TENANT,
    ("GET", "/executions/{executionId}/why"): TENANT,
    ("GET", "/executions/{executionId}/verify"): TENANT,
    ("GET", "/graphs"): TENANT,
    ("GET", "/graphs/{graphId}"): TENANT,
    ("PUT", "/graphs/{graphId}"): Route(Reach.TENANT, {"nodes": [{"id": "of_b"}]}),
    ("GET", "/stream"): TENANT,
    ("POST", "/jobs"): Route(Reach.TENANT, {"parameters": {}}),
    ("GET", "/jobs"): TENANT,
    ("GET", "/jobs/{job_id}"): TENANT,
    ("DELETE", "/jobs/{job_id}"): TENANT,
    ("GET", "/jobs/{job_id}/tags"): TENANT,
    ("POST", "/jobs/{job_id}/tags"): Route(Reach.TENANT, {"tag": "of-b"}),
    ("DELETE", "/jobs/{job_id}/tags/{tag}"): TENANT,
    ("GET", "/jobs/{job_id}/logs"): TENANT,
    ("GET", "/jobs/{job_id}/logs/stream"): TENANT,
    ("GET", "/jobs/{job_id}/ws"): TENANT,
    ("POST", "/pdca/recheck"): Route(Reach.TENANT, RECHECK),
    ("POST", "/pdca/recheck_all"): Route(Reach.TENANT, {"filter": {}, "reason": "x"}),
    ("GET", "/pdca/recheck/{request_id}"): TENANT,
    ("GET", "/gui/requests/{request_id}"): TENANT,
    ("GET", "/gui/strategies"): TENANT,
    ("GET", "/gui/strategies/{strategy_id}"): TENANT,
    ("PUT", "/gui/strategies/{strategy_id}"): Route(
        Reach.TENANT, {"id": "strat.a", "title": "of b", "instrument": "X"}
    ),
    ("DELETE", "/gui/strategies/{strategy_id}"): TENANT,
    ("GET", "/gui/strategies/{strategy_id}/results"): TENANT,
    ("GET", "/gui/artifacts/{artifact_id}/url"): TENANT,
    ("GET", "/gui/artifacts/{artifact_id}/content"): Route(Reach.SIGNED),
}
# Streams are opened for a second: what they say first is all that they have of the past.
QUERIES = {
    "/workers/stream": "timeout_sec=1",  # so that it ends
    "/runs/stream": "timeout_sec=1",
    "/schedules/preview": "interval_seconds=60",
}


def routes_of(document: dict[str, Any]) -> set[tuple[str, str]]:
    methods = {"get", "put", "post", "delete", "patch", "head", "options"}
    return {
        (method.upper(), path)
        for path, described in document["paths"].items()
        for method in described
        if method in methods
    }


def test_every_route_has_a_class(nats_server: NatsServer) -> None:
    app = create_app(config_on(nats_server, http_auth_mode="api_key"))
    written = json.loads(Path("docs/openapi.json").read_text())
    assert routes_of(app.openapi()) == set(ROUTES), (
        "classify the route here, and in http_api/middleware/scopes.py"
    )
    assert routes_of(written) == set(ROUTES)


class Places(NamedTuple):
    """What stands in a path for each of its parameters: things of tenant a."""

    of: dict[str, str]

    def path(self, template: str) -> str:
        path = template.format_map(self.of)
        return f"{path}?{QUERIES[template]}" if template in QUERIES else path


class Both(NamedTuple):
    a: httpx.AsyncClient
    b: httpx.AsyncClient
    admin: httpx.AsyncClient
    store: Store


@asynccontextmanager
async def both_tenants(server: NatsServer) -> AsyncIterator[Both]:
    config = config_on(server, http_auth_mode="api_key")
    async with serving(config) as nobody:
        store = await Store.connect(config, name="test")
        clients = []
        for tenant, scopes in (("a", None), ("b", None), ("a", ("admin",))):
            key = await new_key(store, tenant, scopes=scopes)
            client = httpx.AsyncClient(
                transport=nobody._transport,
                base_url=nobody.base_url,
                headers={"X-API-Key": key},
                timeout=30,
            )
            await until(partial(_is_known, client))
            clients.append(client)
        a, b, admin = clients
        yield Both(a, b, admin, store)
        await store.close()


async def _is_known(client: httpx.AsyncClient) -> bool:
    return (await client.get("/caller")).status_code == 200


async def furnished(both: Both) -> Places:
    """Tenant a has one of everything, each with the mark in it."""
    a = both.a
    run_id = _ok(await a.post("/runs", json={"flow_name": MARK, "params": {"p": MARK}}))["run_id"]
    _ok(await a.put(f"/graphs/{MARK}", json={"nodes": [{"id": MARK}]}))
    made = await a.post("/executions", json={"graphId": MARK}, headers={"X-Idempotency-Key": "of-a"})
    execution_id = _ok(made)["executionId"]
    _ok(await a.post(f"/executions/{execution_id}/start", headers={"X-Idempotency-Key": "start"}, json={}))
    schedule = _ok(await a.post("/schedules", json={"flow_name": MARK, "interval_seconds": 3600}))
    batch = await a.post("/runs/batch", json=[{"flow_name": MARK}])
    batch_id = json.loads(batch.text.splitlines()[0])["batch_id"]
    job_id = _ok(await a.post("/jobs", json={"parameters": {"p": MARK}, "tags": [MARK]}))["id"]
    strategy = {"id": "strat.a", "title": MARK, "instrument": MARK}
    _ok(await a.put("/gui/strategies/strat.a", json=strategy))
    keyed = {"Idempotency-Key": "of-a-recheck"}
    request_id = _ok(await a.post("/pdca/recheck", json=RECHECK, headers=keyed))["request_id"]
    _ok(await both.admin.post("/wheels", files={"wheel": (WHEEL, wheel_bytes("demo", "1.0"))}))
    letter = DeadLetter(timestamp=1.0, reason="execution_error", run_id=run_id, error=MARK)
    assert await both.store.dead_letters.publish(letter, letter_id="letter-of-a")
    await both.store.registry.merge("w1", _worker(run_id))
    [kept] = (await a.get("/dlq")).json()["items"]
    return Places(
        {
            "run_id": run_id, "executionId": execution_id, "nodeId": MARK, "job_id": job_id, "tag": MARK,
            "schedule_id": schedule["schedule_id"], "graphId": MARK, "letter_id": str(kept["id"]),
            "strategy_id": "strat.a", "request_id": request_id, "artifact_id": "1", "wheel_name": WHEEL,
            "worker_id": "w1", "key": "of-a", "batch_id": batch_id,
        }
    )  # fmt: skip


def _worker(run_id: str) -> dict[str, Any]:
    now = time.time()
    entry = {"state": "RUNNING", "last_seen_at": now, "last_heartbeat_at": now, "instance_id": "i"}
    return entry | {"tags": ["default"], "current_run_id": run_id, "current_run_ids": [run_id]}


def _ok(answer: httpx.Response) -> Any:
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


SHOWN_TO_A = [
    "/runs/{run_id}", "/runs/{run_id}/tasks", "/runs", "/executions/{executionId}",
    "/executions/{executionId}/events", "/graphs/{graphId}", "/graphs", "/schedules", "/jobs/{job_id}",
    "/jobs", "/jobs/{job_id}/tags", "/gui/strategies/{strategy_id}", "/gui/requests/{request_id}", "/wheels",
    "/wheels/history", "/dlq", "/dlq/{letter_id}", "/approvals", "/flows", "/workers",
    "/idempotency/{key}", "/schedules/{schedule_id}/runs",
    "/batches", "/batches/{batch_id}",
]  # fmt: skip


async def shown_to(client: httpx.AsyncClient, places: Places) -> dict[str, Any]:
    return {path: _ok(await client.get(places.path(path))) for path in SHOWN_TO_A}


async def called(client: httpx.AsyncClient, method: str, path: str, places: Places) -> httpx.Response:
    route, body = ROUTES[(method, path)], ROUTES[(method, path)].body
    if path in ("/runs/yaml", "/schedules/yaml"):
        files = {"workflow": ("flow.yaml", YAML)}
        form = {"flow_name": "of-b", "tag": "default", "interval_seconds": "3600"}
        return await client.post(path, files=files, data=form)
    if (method, path) == ("POST", "/wheels"):
        later = file_name("demo", "2.0")
        return await client.post(path, files={"wheel": (later, wheel_bytes("demo", "2.0"))})
    if isinstance(body, dict) and "path" in body:
        body = {"path": places.path(body["path"])}
    headers = KEYED if method != "GET" else {}
    address = places.path(path)
    if (method, path) == ("GET", "/stream"):
        address += f"?topic=run:{places.of['run_id']}"
    if route.reach is Reach.TENANT and method == "POST":
        headers = headers | {"X-Idempotency-Key": f"b{len(address)}{address[-24:]}".replace("/", "-")}
    return await client.request(method, address, json=body, headers=headers)


# Names are free in every tenant: b makes, and deletes, things of its own that are called the same.
SAME_NAME = {
    ("PUT", "/graphs/{graphId}"),
    ("PUT", "/gui/strategies/{strategy_id}"),
    ("DELETE", "/gui/strategies/{strategy_id}"),
}
# Deleting what is not there is done at once.
DELETED = {("DELETE", "/jobs/{job_id}"), ("DELETE", "/jobs/{job_id}/tags/{tag}")}


async def test_another_tenants_unscoped_key_sees_and_changes_nothing(nats_server: NatsServer) -> None:
    async with both_tenants(nats_server) as both:
        places = await furnished(both)
        before = await shown_to(both.a, places)
        for (method, path), route in ROUTES.items():
            answer = await called(both.b, method, path, places)
            _check_answer_to_b((method, path), route, answer)
            sent = str(answer.request.url) + answer.request.read().decode("latin-1")
            ids = [one for one in (MARK, *places.of.values()) if len(one) > 3 and one not in sent]
            assert not [one for one in ids if one in answer.text], (method, path, answer.text)
        assert await shown_to(both.a, places) == before


def _check_answer_to_b(which: tuple[str, str], route: Route, answer: httpx.Response) -> None:
    status, said = answer.status_code, (which, answer.text)
    match route.reach:
        case Reach.BEYOND:
            assert (status, route.scope in answer.text) == (403, True), said
        case Reach.SIGNED:
            assert status == 403, said
        case Reach.TENANT if "{" in which[1] and which not in SAME_NAME | DELETED:
            assert status == 404, said
        case Reach.TENANT | Reach.SHARED | Reach.PUBLIC:
            assert status in (200, 201, 202, 204, 400, 404), said
        case Reach.OWN:
            assert status in (200, 404), said


@pytest.mark.parametrize("route", [one for one in ROUTES if ROUTES[one].reach is Reach.BEYOND])
async def test_what_reaches_beyond_a_tenant_needs_its_scope_by_name(
    nats_server: NatsServer, route: tuple[str, str]
) -> None:
    method, path = route
    async with both_tenants(nats_server) as both:
        places = await furnished(both)
        unscoped = await called(both.a, method, path, places)
        assert unscoped.status_code == 403, unscoped.text
        named = ROUTES[route].scope
        assert named in unscoped.json()["detail"]
        key = await new_key(both.store, "a", scopes=(named,))
        both.a.headers["X-API-Key"] = key
        await until(partial(_is_known, both.a))
        assert (await called(both.a, method, path, places)).status_code == 200
        if (method, path) != ("DELETE", "/wheels/{wheel_name}"):
            assert (await called(both.admin, method, path, places)).status_code in (200, 409)
