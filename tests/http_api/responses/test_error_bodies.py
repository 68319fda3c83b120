"""Errors in the runs face's words: ids, two languages, problem+json on request, a request id always."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from pyoco_server.http_api import pages
from pyoco_server.operations.runs import query
from tests.http_api.serving import ULID, expect_error, submit

SECRET = "hunter2-should-never-come-back"


@pytest.mark.parametrize(
    ("language", "message"),
    [
        ("ja", "リクエストが不正です"),
        ("ja-JP,en;q=0.5", "リクエストが不正です"),
        ("en", "The request is not valid"),
        ("fr,ja;q=0.1,en;q=0.9", "The request is not valid"),
        ("fr", "The request is not valid"),
        ("", "The request is not valid"),
    ],
)
async def test_the_message_is_in_the_callers_language(
    client: httpx.AsyncClient, language: str, message: str
) -> None:
    answer = await client.post("/runs", json={}, headers={"Accept-Language": language})
    assert expect_error(answer, 422, "ERR-PYOCO-0002")["message"] == message


async def test_each_id_has_its_own_message(client: httpx.AsyncClient) -> None:
    japanese = {"Accept-Language": "ja"}
    missing = await client.get("/runs/nope", headers=japanese)
    assert expect_error(missing, 404, "ERR-PYOCO-0005")["message"] == "runが見つかりません"
    listed = await client.get("/runs?limit=x", headers=japanese)
    assert expect_error(listed, 422, "ERR-PYOCO-0017")["message"] == "一覧クエリが不正です"


async def test_nothing_of_the_request_is_echoed(client: httpx.AsyncClient) -> None:
    bodies: list[Any] = [
        {"flow_name": [SECRET]},
        {"flow_name": "f", "tag": SECRET + "!"},
        {SECRET: 1},
        SECRET,
    ]
    for body in bodies:
        answer = await client.post("/runs", json=body)
        refused = expect_error(answer, 422, "ERR-PYOCO-0002")
        assert all(set(problem) == {"loc", "msg", "type"} for problem in refused["detail"])
        assert SECRET not in answer.text
    for query_text in (f"status={SECRET}", f"limit={SECRET}", f"include={SECRET}"):
        assert SECRET not in (await client.get(f"/runs?{query_text}")).text
    assert SECRET not in (await client.get(f"/runs/{SECRET}.x")).text
    assert SECRET not in (await client.get(f"/{SECRET}")).text


async def test_problem_json_is_answered_to_whoever_accepts_it(client: httpx.AsyncClient) -> None:
    headers = {"Accept": "application/problem+json", "Accept-Language": "ja"}
    answer = await client.get("/runs/nope", headers=headers)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert ULID.fullmatch(answer.headers["x-request-id"])
    problem = answer.json()
    assert (problem["type"], problem["title"], problem["status"]) == (
        "about:blank",
        "runが見つかりません",
        404,
    )
    assert (problem["err_id"], problem["msg_id"]) == ("ERR-PYOCO-0005", "MSG-PYOCO-0005")
    assert problem["detail"]


async def test_a_problem_says_what_is_wrong_where(client: httpx.AsyncClient) -> None:
    headers = {"Accept": "application/problem+json"}
    answer = await client.post("/runs", json={"flow_name": 7}, headers=headers)
    assert answer.json()["detail"] == "body.flow_name: Expected `str`, got `int`"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("POST", "/runs", 422), ("GET", "/nope", 404), ("PUT", "/runs", 405), ("GET", "/static/nope.js", 404)],
)
async def test_every_kind_of_error_can_be_a_problem(
    client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    answer = await client.request(method, path, headers={"Accept": "application/problem+json"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert answer.json()["title"]


async def test_a_route_that_is_not_there_is_no_missing_run(client: httpx.AsyncClient) -> None:
    for path in ("/nope", "/runs/a/b/c", "/runs/", "/static", "/RUNS"):
        expect_error(await client.get(path), 404, None)


async def test_without_a_dashboard_the_front_page_says_where_everything_is(
    client: httpx.AsyncClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "BUILT", tmp_path)
    assert "/openapi.json" in expect_error(await client.get("/"), 404, None)["detail"]


async def test_a_method_that_is_not_there_is_refused_with_those_that_are(client: httpx.AsyncClient) -> None:
    answer = await client.delete("/runs")
    assert answer.status_code == 405
    assert {"GET", "POST"} & set(answer.headers["allow"].replace(" ", "").split(","))
    expect_error(answer, 405, None)


async def test_every_answer_has_a_request_id_of_its_own(client: httpx.AsyncClient) -> None:
    run_id = await submit(client)
    paths = ["/health", "/ready", "/runs", f"/runs/{run_id}", "/openapi.json", "/nope", "/runs/nope", "/"]
    found = [(await client.get(path)).headers.get_list("x-request-id") for path in paths]
    found.append((await client.post("/runs", content=b"{")).headers.get_list("x-request-id"))
    found.append((await client.put("/runs")).headers.get_list("x-request-id"))
    found.append((await client.get("/runs", headers={"Host": "evil"})).headers.get_list("x-request-id"))
    assert all(len(ids) == 1 and ULID.fullmatch(ids[0]) for ids in found)
    assert len({ids[0] for ids in found}) == len(found)


async def test_request_ids_sort_by_time(client: httpx.AsyncClient) -> None:
    first = (await client.get("/health")).headers["x-request-id"]
    await asyncio.sleep(0.01)
    assert first < (await client.get("/health")).headers["x-request-id"]


async def test_our_own_mistake_is_a_500_that_says_nothing_of_it(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(query, "get_run", broken)
    answer = await client.get("/runs/some-run")
    expect_error(answer, 500, None)
    assert SECRET not in answer.text
    assert "Traceback" not in answer.text
