"""One effect for one key: what is the same request, what is not, and what survives a restart or an outage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.ids import new_ulid
from pyoco_server.recheck.records import run_id_of
from tests.conftest import NatsServer, until
from tests.http_api.serving import is_ready
from tests.recheck.faces import asked, expect_flat, post, recheck_config, recheck_face, until_over
from tests.recheck.stage import evaluating
from tests.worker.stage import jobs_queued

BODY = (
    '{"strategies":["strat.a"],"window":{"lookback_days":14},"reason":"が",'
    '"dry_run":true,"params":{"recalc_metrics":["sharpe"]}}'
)
SAME = {
    "reordered": '{"reason":"が","params":{"recalc_metrics":["sharpe"]},"dry_run":true,'
    '"window":{"lookback_days":14},"strategies":["strat.a"]}',
    "spaced": BODY.replace(",", " ,\n\t").replace(":", " : "),
    "14.0": BODY.replace("14", "14.0"),
    "decomposed": BODY.replace("が", "か\u3099"),
    "escaped": BODY.replace("が", "\\u304c"),
    "with a trace_id": BODY.replace('{"strategies"', '{"trace_id":"t-1","strategies"'),
}
OTHER = {
    "another strategy": BODY.replace("strat.a", "strat.b"),
    "one more": BODY.replace('["strat.a"]', '["strat.a","strat.a"]'),
    "a default spelled out": BODY.replace('["sharpe"]', '["sharpe"],"retrain":false'),
    "an unknown member": BODY.replace('"dry_run"', '"colour":1,"dry_run"'),
    "another window": BODY.replace("14", "15"),
}


@pytest.fixture
def config(nats_server: NatsServer, tmp_path: Path) -> NatsBackendConfig:
    return recheck_config(nats_server, tmp_path)


@pytest.fixture
async def face(config: NatsBackendConfig) -> AsyncIterator[httpx.AsyncClient]:
    async with recheck_face(config) as client:
        yield client


async def test_all_ways_to_write_a_request_are_one_request(face: httpx.AsyncClient) -> None:
    key = new_ulid()
    first = await post(face, BODY.encode(), key=key)
    assert first.status_code == 202
    assert "idempotency-replayed" not in first.headers
    for kind, body in SAME.items():
        again = await post(face, body.encode(), key=key)
        assert (again.status_code, again.content) == (202, first.content), kind
        assert again.headers["idempotency-replayed"] == "true"
    for kind, body in OTHER.items():
        assert expect_flat(await post(face, body.encode(), key=key), 409, "IDEMPOTENCY_CONFLICT"), kind


async def test_the_order_of_strategies_has_a_meaning(face: httpx.AsyncClient) -> None:
    key = new_ulid()
    assert (await post(face, asked("strat.a", "strat.b"), key=key)).status_code == 202
    expect_flat(await post(face, asked("strat.b", "strat.a"), key=key), 409, "IDEMPOTENCY_CONFLICT")


async def test_a_key_counts_for_its_route_and_is_needed(face: httpx.AsyncClient) -> None:
    key = new_ulid()
    one = await post(face, asked(), key=key)
    other = await post(face, {"filter": {}, "reason": "all"}, key=key, path="/pdca/recheck_all")
    assert (one.status_code, other.status_code) == (202, 202)
    assert one.json()["request_id"] != other.json()["request_id"]
    assert (await face.get(f"/idempotency/{key}")).json()["answer"] == one.json()
    for wrong in ("", "1234567", "x" * 65):
        said = expect_flat(await post(face, asked(), **{"Idempotency-Key": wrong}), 400, "BAD_REQUEST")
        assert "8 to 64" in said["message"]
    missing = await face.post("/pdca/recheck", json=asked())
    assert "Idempotency-Key is required" in expect_flat(missing, 400, "BAD_REQUEST")["message"]
    for right in ("12345678", "x" * 64):
        assert (await post(face, asked(), key=right)).status_code == 202


async def test_what_is_refused_reserves_nothing(face: httpx.AsyncClient) -> None:
    key = new_ulid()
    refused = await post(face, asked("strat.new", "strat.nil"), key=key)
    said = expect_flat(refused, 400, "BAD_REQUEST")["message"]
    assert said == "strategies names unknown ids: strat.new, strat.nil."
    expect_flat(await post(face, asked(reason=""), key=key), 400, "BAD_REQUEST")
    assert (await post(face, asked(), key=key)).status_code == 202


async def test_every_unknown_strategy_is_named(face: httpx.AsyncClient) -> None:
    unknown = [f"strat.new{number}" for number in range(50)]
    said = expect_flat(await post(face, asked(*unknown)), 400, "BAD_REQUEST")["message"]
    assert said == f"strategies names unknown ids: {', '.join(unknown)}."


async def test_what_was_accepted_is_answered_again_after_the_catalogue_has_changed(
    face: httpx.AsyncClient,
) -> None:
    key = new_ulid()
    first = await post(face, asked(), key=key)
    await face.put("/gui/strategies/strat.a", json={"enabled": False})
    assert (await post(face, asked(), key=key)).content == first.content
    expect_flat(await post(face, asked(reason="other"), key=key), 400, "BAD_REQUEST")
    only_off = expect_flat(await post(face, asked("strat.off")), 400, "BAD_REQUEST")
    assert "only disabled" in only_off["message"]


async def test_disabled_strategies_and_those_named_twice_are_dropped(face: httpx.AsyncClient) -> None:
    answer = await post(face, asked("strat.b", "strat.off", "strat.a", "strat.b"))
    assert answer.json()["estimated"] == {"strategies": 2, "batches": 1}


async def test_a_dry_run_starts_nothing(face: httpx.AsyncClient, config: NatsBackendConfig) -> None:
    answer = (await post(face, asked("strat.a", "strat.b"))).json()
    assert answer["dry_run"] is True
    assert "dag" not in answer
    shown = (await face.get(f"/gui/requests/{answer['request_id']}")).json()
    assert "dag" not in shown
    assert shown["status"] == "success"
    assert shown["progress"] == {
        "total_batches": 1, "completed_batches": 0, "total_strategies": 2, "completed_strategies": 0,
    }  # fmt: skip
    assert (await face.get("/runs")).json() == []
    assert (await face.get(f"/runs/{run_id_of(answer['request_id'], 0)}")).status_code == 404


async def test_nothing_that_matches_is_done_at_once(face: httpx.AsyncClient) -> None:
    wanted = {"filter": {"tags_any": ["nobody"]}, "reason": "x", "dry_run": False}
    answer = await post(face, wanted, path="/pdca/recheck_all")
    assert answer.status_code == 202
    assert answer.json()["estimated"] == {"strategies": 0, "batches": 0}
    shown = (await face.get(f"/pdca/recheck/{answer.json()['request_id']}")).json()
    assert (shown["status"], shown["progress"]["total_strategies"]) == ("success", 0)


async def test_a_filter_is_or_inside_and_and_between(face: httpx.AsyncClient) -> None:
    filters: list[tuple[dict[str, list[str]], int]] = [
        ({}, 3),
        ({"tags_any": ["daily", "fx"]}, 2),
        ({"tags_any": ["daily"], "instrument_any": ["USDJPY"]}, 1),
        ({"instrument_any": ["USDJPY", "EURUSD"]}, 3),
        ({"health": ["unknown"]}, 3),
        ({"health": ["healthy", "degraded"]}, 0),
    ]
    for chosen, count in filters:
        answer = await post(face, {"filter": chosen, "reason": "x"}, path="/pdca/recheck_all")
        assert answer.json()["estimated"]["strategies"] == count


async def test_twenty_at_once_are_one_request_and_one_run(
    face: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    async with recheck_face(config) as other:
        key, body = new_ulid(), asked(dry_run=False)
        gateways = [face, other] * 10
        answers = await asyncio.gather(*(post(one, body, key=key) for one in gateways))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.content for answer in answers}) == 1
        run_id = answers[0].json()["dag"]["run_id"]
        assert [run["run_id"] for run in (await face.get("/runs")).json()] == [run_id]
        async with evaluating(config) as flow:
            over = await until_over(other, answers[0].json()["request_id"])
        assert (over["status"], over["dag"]["run_ids"]) == ("success", [run_id])
        assert len(flow.given) == 1


async def test_a_key_is_remembered_by_the_gateway_that_comes_after(config: NatsBackendConfig) -> None:
    key, body = new_ulid(), asked(dry_run=False)
    async with recheck_face(config) as before:
        first = await post(before, body, key=key)
    async with recheck_face(config) as after:
        again = await post(after, body, key=key)
        assert (again.status_code, again.content) == (202, first.content)
        assert len((await after.get("/runs")).json()) == 1


async def test_without_the_broker_it_is_502_and_afterwards_the_key_counts_once(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    config = recheck_config(own_nats_server, tmp_path)
    key, body = new_ulid(), asked(dry_run=False)
    async with recheck_face(config) as face:
        own_nats_server.kill()
        for request in (post(face, body, key=key), face.get("/gui/strategies")):
            answer = await asyncio.wait_for(request, 10)
            expect_flat(answer, 502, "AIRFLOW_DOWN")
        own_nats_server.start()
        await until(lambda: is_ready(face))
        accepted = await until_accepted(face, body, key)
        assert (await post(face, body, key=key)).content == accepted.content
        assert len((await face.get("/runs")).json()) == 1


@pytest.mark.slow
async def test_a_broker_that_hangs_is_told_within_ten_seconds(
    own_nats_server: NatsServer, tmp_path: Path
) -> None:
    """Paused in the middle of a burst: some are accepted, some told to come again; each key counts once."""
    config = recheck_config(own_nats_server, tmp_path, recheck_per_min=10_000, broker_timeout_sec=0.7)
    keys = [new_ulid() for _ in range(12)]
    body = asked(dry_run=False)
    async with recheck_face(config) as face:
        burst = [asyncio.create_task(post(face, body, key=key)) for key in keys]
        await asyncio.wait(burst, return_when=asyncio.FIRST_COMPLETED)
        own_nats_server.pause()
        late = await asyncio.wait_for(post(face, body), 10.5)
        expect_flat(late, 502, "AIRFLOW_DOWN")
        answers = await asyncio.wait_for(asyncio.gather(*burst), 30)
        assert {answer.status_code for answer in answers} <= {202, 502}
        own_nats_server.resume()
        await until(lambda: is_ready(face))
        again = [await until_accepted(face, body, key) for key in keys]
        for first, second in zip(answers, again, strict=True):
            assert first.status_code == 502 or first.content == second.content
        known = {answer.json()["dag"]["run_id"] for answer in again}
        assert len(known) == len(keys)
        listed = {run["run_id"] for run in (await face.get("/runs", params={"limit": 100})).json()}
        assert known <= listed
        # The one that came late was told to come again and did not: at most its own run is there besides.
        assert len(listed - known) <= 1


async def until_accepted(face: httpx.AsyncClient, body: object, key: str) -> httpx.Response:
    async def accepted() -> httpx.Response | None:
        answer = await post(face, body, key=key)
        assert answer.status_code in (202, 502), answer.text
        return answer if answer.status_code == 202 else None

    found = await until(accepted, within_sec=60, every_sec=0.1)
    assert isinstance(found, httpx.Response)
    return found


BAD_BODIES = {
    "no JSON": b"{",
    "not UTF-8": b'{"reason":"\xff"}',
    "twice": b'{"reason":"x","reason":"x","strategies":["strat.a"]}',
    "NaN": b'{"reason":"x","strategies":["strat.a"],"n":NaN}',
    "a list": b"[]",
    "nothing": b"",
    "too deep": b'{"a":' + b"[" * 200 + b"]" * 200 + b"}",
}


async def test_a_body_that_cannot_be_accepted_is_400(nats_server: NatsServer, tmp_path: Path) -> None:
    config = recheck_config(nats_server, tmp_path, recheck_all_per_min=100)
    async with recheck_face(config) as face:
        for body in BAD_BODIES.values():
            for path in ("/pdca/recheck", "/pdca/recheck_all"):
                expect_flat(await post(face, body, path=path), 400, "BAD_REQUEST")


async def test_a_body_of_64_kib_is_accepted_and_one_byte_more_is_400(face: httpx.AsyncClient) -> None:
    bare = json.dumps(asked(note="")).encode()
    fits, too_large = (json.dumps(asked(note="x" * (size - len(bare)))).encode() for size in (65_536, 65_537))
    assert len(fits) == 65_536
    assert (await post(face, fits)).status_code == 202

    async def in_pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(too_large), 10_000):
            yield too_large[start : start + 10_000]

    headers = {"Content-Type": "application/json", "Idempotency-Key": new_ulid()}
    for content in (too_large, in_pieces()):
        answer = await face.post("/pdca/recheck", content=content, headers=headers)
        assert "65536 bytes" in expect_flat(answer, 400, "BAD_REQUEST")["message"]


async def test_other_content_types_and_sizes_are_400_too(face: httpx.AsyncClient) -> None:
    answer = await post(face, b"a=b", **{"Content-Type": "application/x-www-form-urlencoded"})
    assert "application/json" in expect_flat(answer, 400, "BAD_REQUEST")["message"]
    huge = await post(face, b"x" * 9_000_000)
    expect_flat(huge, 400, "BAD_REQUEST")


async def test_routes_and_methods_that_are_not_there_are_flat_too(face: httpx.AsyncClient) -> None:
    for path in (
        "/pdca/nothing",
        "/pdca/",
        "/gui/",
        "/gui/strategies/",
        "/gui/strategies/a/b",
        "/pdca/recheck/a/b",
    ):
        expect_flat(await face.get(path), 404, "NOT_FOUND")
    for method, path in (
        ("GET", "/pdca/recheck"),
        ("DELETE", "/pdca/recheck_all"),
        ("POST", "/gui/strategies"),
    ):
        expect_flat(await face.request(method, path), 400, "BAD_REQUEST")
    for path in (
        "/pdca/recheck/01JABCXYZ",
        "/gui/requests/x",
        "/gui/artifacts/x/url",
        "/gui/artifacts/9/url",
    ):
        expect_flat(await face.get(path), 404, "NOT_FOUND")


async def test_whoever_wants_a_problem_gets_one(face: httpx.AsyncClient) -> None:
    answer = await post(face, b"{", Accept="application/problem+json")
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["status"], answer.json()["error"]) == (400, "BAD_REQUEST")


async def test_a_gateway_does_not_start_with_a_catalogue_that_is_wrong(
    nats_server: NatsServer, tmp_path: Path
) -> None:
    (tmp_path / "strategies.yaml").write_text("strategies: [{id: X}]", encoding="utf-8")
    with pytest.raises(Exception, match=r"strategies\.0\.id must match"):
        create_app(recheck_config(nats_server, tmp_path))


async def test_jobs_are_queued_once_for_each_batch(
    face: httpx.AsyncClient, config: NatsBackendConfig
) -> None:
    gateway = face._transport.app.state.gateway  # type: ignore[attr-defined]
    answer = await post(face, {"filter": {}, "reason": "x", "dry_run": False}, path="/pdca/recheck_all")
    assert answer.json()["estimated"] == {"strategies": 3, "batches": 1}
    assert await jobs_queued(gateway.store) == 1
