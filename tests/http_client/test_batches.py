"""Batches from both clients, with a real gateway and worker."""

from __future__ import annotations

import json

import httpx
import pytest

from pyoco_server.http_client import AsyncPyocoClient, PyocoHttpClient
from pyoco_server.http_client.answers import SubmittedBatchAnswer
from pyoco_server.http_client.batches import submit_batch
from pyoco_server.http_client.retries import RequestRetryPolicy
from pyoco_server.http_client.script import ApiRequest, Pause, PolicyOf, Script, Send, Step

HELLO = {"flow_name": "hello", "tag": "demo"}


def items(count: int) -> list[dict[str, object]]:
    return [HELLO | {"params": {"name": f"n{number}"}} for number in range(count)]


def test_a_batch_is_submitted_followed_and_read(client: PyocoHttpClient) -> None:
    made = client.submit_batch([*items(3), {"flow_name": ""}])
    assert (made["accepted"], made["refused"], made["complete"]) == (3, 1, True)
    assert ["run_id" in one for one in made["items"]] == [True, True, True, False]
    *_, last = client.follow_batch(made["batch_id"])
    assert (last["is_over"], last["counts"]["COMPLETED"]) == (True, 3)
    assert client.get_batch(made["batch_id"])["counts"] == last["counts"]
    assert made["batch_id"] in {one["batch_id"] for one in client.list_batches(limit=5)}


def test_an_atomic_batch_names_its_invalid_items(client: PyocoHttpClient) -> None:
    with pytest.raises(httpx.HTTPStatusError) as refused:
        client.submit_batch([*items(1), {"flow_name": ""}], atomic=True)
    assert refused.value.response.json()["detail"][0]["loc"] == ["body", 1, "flow_name"]


def test_a_batch_is_cancelled(client: PyocoHttpClient) -> None:
    made = client.submit_batch([HELLO | {"tag": "nobody"}] * 5)
    assert client.cancel_batch(made["batch_id"], "enough")["cancel_reason"] == "enough"
    *_, last = client.follow_batch(made["batch_id"])
    assert last["counts"]["CANCELLED"] == 5


async def test_a_batch_from_the_asynchronous_client(client: PyocoHttpClient) -> None:
    async with AsyncPyocoClient(str(client._http.base_url)) as asynchronous:
        made = await asynchronous.submit_batch(items(2), idempotency_key="twice")
        assert await asynchronous.submit_batch(items(2), idempotency_key="twice") == made
        async for latest in asynchronous.follow_batch(made["batch_id"]):
            assert latest["total"] == 2
        assert latest["counts"]["COMPLETED"] == 2


def test_an_interrupted_batch_is_sent_again_with_its_key() -> None:
    """The first answer says that the broker stopped to answer."""
    sent: list[ApiRequest] = []
    script = submit_batch(items(1))
    assert _performed(script, sent)["complete"]
    assert len(sent) == 2
    assert sent[0] == sent[1]
    assert "Idempotency-Key" in sent[0].headers


def _performed(script: Script[SubmittedBatchAnswer], sent: list[ApiRequest]) -> SubmittedBatchAnswer:
    step = next(script)
    while True:
        try:
            step = script.send(_what_comes_of(step, sent))
        except StopIteration as ended:
            answer: SubmittedBatchAnswer = ended.value
            return answer


def _what_comes_of(step: Step, sent: list[ApiRequest]) -> object:
    match step:
        case PolicyOf():
            return RequestRetryPolicy()
        case Send(request):
            sent.append(request)
            end = {"batch_id": "b", "total": 1, "accepted": 1, "refused": 0, "complete": len(sent) > 1}
            rows = [
                {"batch_id": "b", "total": 1, "note": "a\u2028b"},
                {"index": 0, "run_id": "r", "status": "PENDING"},
                end,
            ]
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            return httpx.Response(200, text=text, request=httpx.Request("POST", "http://gateway"))
        case Pause():
            return None
        case _:
            raise AssertionError(step)
