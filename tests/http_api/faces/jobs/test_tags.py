"""Tags of jobs: any script, each once, in their order, at any time."""

from __future__ import annotations

import asyncio
import threading
from urllib.parse import quote

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from tests.conftest import until
from tests.http_api.faces.jobs.test_jobs import created, ended, refused
from tests.worker.stage import Flows, one_task, waiting, working

COMPOSED, DECOMPOSED = "caf\u00e9", "cafe\u0301"


async def test_tags_are_added_once_in_their_order(client: httpx.AsyncClient) -> None:
    job = await created(client, tags=["urgent", "data", "urgent"])
    path = f"/jobs/{job['id']}/tags"
    assert (await client.get(path)).json() == ["urgent", "data"]
    for _ in range(2):
        answer = await client.post(path, json={"tag": "  analysis "})
        assert (answer.status_code, answer.json()) == (200, ["urgent", "data", "analysis"])
    assert (await client.post(path, json={"tag": "Data"})).json()[-1] == "Data"
    for _ in range(2):
        answer = await client.delete(f"{path}/data")
        assert (answer.status_code, answer.content) == (204, b"")
    assert (await client.get(path)).json() == ["urgent", "analysis", "Data"]
    assert (await client.get(f"/runs/{job['id']}")).json()["tags"] == ["urgent", "analysis", "Data"]


@pytest.mark.parametrize("tag", ["a/b", "a b", "緊急", "100%", "a?b#c", "🙂", "x" * 64, "..", "é/ü"])
async def test_any_tag_can_be_added_found_and_removed(client: httpx.AsyncClient, tag: str) -> None:
    job = await created(client)
    assert (await client.post(f"/jobs/{job['id']}/tags", json={"tag": tag})).json() == [tag]
    found = (await client.get("/jobs", params={"tag": tag})).json()["jobs"]
    assert [one["id"] for one in found] == [job["id"]]
    path = quote(tag, safe="").replace(".", "%2E")
    answer = await client.request("DELETE", httpx.URL(f"http://127.0.0.1/jobs/{job['id']}/tags/{path}"))
    assert answer.status_code == 204
    assert (await client.get(f"/jobs/{job['id']}/tags")).json() == []


async def test_two_ways_to_write_a_tag_are_one_tag(client: httpx.AsyncClient) -> None:
    job = await created(client, tags=[COMPOSED, DECOMPOSED])
    assert job["tags"] == [COMPOSED]
    assert (await client.post(f"/jobs/{job['id']}/tags", json={"tag": DECOMPOSED})).json() == [COMPOSED]
    assert len((await client.get("/jobs", params={"tag": DECOMPOSED})).json()["jobs"]) == 1
    assert (await client.delete(f"/jobs/{job['id']}/tags/{quote(DECOMPOSED)}")).status_code == 204
    assert (await client.get(f"/jobs/{job['id']}/tags")).json() == []


@pytest.mark.parametrize("tag", ["", "  ", "x" * 65, "a\nb", "a\x00", "\x7f"])
async def test_what_is_no_tag(client: httpx.AsyncClient, tag: str) -> None:
    job = await created(client)
    refused(await client.post(f"/jobs/{job['id']}/tags", json={"tag": tag}), 422, "INVALID_REQUEST")
    assert (await client.get(f"/jobs/{job['id']}/tags")).json() == []


async def test_bodies_that_name_no_tag(client: httpx.AsyncClient) -> None:
    path = f"/jobs/{(await created(client))['id']}/tags"
    json_type = {"Content-Type": "application/json"}
    for body, status, code in (
        (b"{}", 422, "INVALID_REQUEST"),
        (b'{"tag":1}', 422, "INVALID_REQUEST"),
        (b'"x"', 422, "INVALID_REQUEST"),
        (b"{", 400, "MALFORMED_JSON"),
        (b'{"tag":"a","tag":"b"}', 400, "MALFORMED_JSON"),
    ):
        refused(await client.post(path, content=body, headers=json_type), status, code)
    refused(await client.post(path, content=b"tag=x", headers={"Content-Type": "text/plain"}), 415,
            "UNSUPPORTED_MEDIA_TYPE")  # fmt: skip


async def test_the_thirty_third_tag_is_refused(client: httpx.AsyncClient) -> None:
    job = await created(client, tags=[f"t{n}" for n in range(32)])
    path = f"/jobs/{job['id']}/tags"
    refused(await client.post(path, json={"tag": "one more"}), 422, "INVALID_REQUEST")
    assert (await client.post(path, json={"tag": "t7"})).status_code == 200
    assert (await client.delete(f"{path}/t0")).status_code == 204
    assert (await client.post(path, json={"tag": "one more"})).status_code == 200


async def test_all_named_tags_must_match(client: httpx.AsyncClient) -> None:
    both = await created(client, tags=["a", "b"])
    await created(client, tags=["a"])
    found = (await client.get("/jobs?tag=a&tag=b&status=pending")).json()["jobs"]
    assert [job["id"] for job in found] == [both["id"]]
    assert (await client.get("/jobs?tag=a&tag=nobody")).json() == {"jobs": []}


async def test_tags_do_not_disturb_a_running_job_and_work_on_a_finished_one(
    client: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    async with working(config, Flows(main=one_task(waiting(begun, go_on)))) as worker:
        job = await created(client)
        path = f"/jobs/{job['id']}/tags"
        performing = asyncio.create_task(worker.run_once(timeout=20.0))
        await until(begun.is_set)
        answers = await asyncio.gather(*(client.post(path, json={"tag": f"t{n}"}) for n in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        go_on.set()
        await performing
        assert (await ended(client, job["id"]))["status"] == "completed"
    assert set((await client.get(path)).json()) == {f"t{n}" for n in range(20)}
    assert (await client.post(path, json={"tag": "late"})).status_code == 200
    assert (await client.delete(f"{path}/t3")).status_code == 204
    found = (await client.get("/jobs?tag=late&status=completed")).json()["jobs"]
    assert [one["id"] for one in found] == [job["id"]]
    assert "t3" not in found[0]["tags"]
