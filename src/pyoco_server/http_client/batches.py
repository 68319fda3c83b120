"""Calls about batches: submit many runs in one request, follow them, cancel them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyoco_server.http_client.calls import given, key_header, path_of
from pyoco_server.http_client.script import (
    ApiRequest,
    Emit,
    Pause,
    PolicyOf,
    ResumingStream,
    Script,
    Stream,
    ask,
    send,
)

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import BatchAnswer, SubmittedBatchAnswer
    from pyoco_server.http_client.retries import RequestRetryPolicy

# The gateway answers with the first run at once, and with the last when all are stored.
SUBMIT_TIMEOUT_SEC = 300.0
ONE_WATCH_SEC = 600
LINES = {"Content-Type": "application/x-ndjson"}


def submit_batch(
    items: Iterable[Mapping[str, object]],
    *,
    atomic: bool = False,
    idempotency_key: str | None = None,
) -> Script[SubmittedBatchAnswer]:
    """Submit up to 10,000 runs. An item has the members of `POST /runs`: `flow_name`, `params` and others.

    The answer's `items` say what became of each. An invalid item is refused by itself; with `atomic`
    nothing is submitted then, and `httpx.HTTPStatusError` (422) names the items. If the broker stops to
    answer in between, the request is sent again with its key, and submits the rest.
    """
    content = b"".join(json.dumps(item).encode() + b"\n" for item in items)
    request = ApiRequest(
        "POST",
        "/runs/batch",
        given(atomic="true" if atomic else None),
        content=content,
        headers=LINES | key_header(idempotency_key or str(uuid.uuid4())),
        timeout_sec=SUBMIT_TIMEOUT_SEC,
    )
    policy: RequestRetryPolicy = yield PolicyOf()
    tries = 0
    while True:
        tries += 1
        response = yield from send(request)
        answer = _answer_in(response.raise_for_status().text)
        if answer["complete"] or tries >= policy.tries_max:
            return answer
        yield Pause(policy.backoff(tries))


def get_batch(batch_id: str) -> Script[BatchAnswer]:
    """The batch, with its runs by status."""
    return ask(ApiRequest("GET", path_of("batches", batch_id)))


def list_batches(*, limit: int | None = None) -> Script[list[BatchAnswer]]:
    """Batches, the newest first, without the numbers of their runs."""
    return ask(ApiRequest("GET", "/batches", given(limit=limit)))


def follow_batch(batch_id: str) -> Stream[BatchAnswer]:
    """The batch at once and whenever its numbers change, until all its runs have ended."""

    def request() -> ApiRequest:
        return ApiRequest("GET", path_of("batches", batch_id, "watch"), {"timeout_sec": ONE_WATCH_SEC})

    stream = ResumingStream(request)
    while True:
        event = yield from stream.next()
        if event is not None and event.name == "batch":
            yield Emit(event.data)
            if event.data["is_over"]:
                return


def cancel_batch(batch_id: str, reason: str | None = None) -> Script[BatchAnswer]:
    """Cancel every run of the batch that has not ended. A second cancel is an accepted no-op."""
    return ask(ApiRequest("POST", path_of("batches", batch_id, "cancel"), json=given(reason=reason)))


def _answer_in(text: str) -> SubmittedBatchAnswer:
    # Only at line feeds: `splitlines` also splits within texts, for example at U+2028.
    _first, *items, last = [json.loads(line) for line in text.rstrip("\n").split("\n")]
    answer: SubmittedBatchAnswer = last | {"items": items}
    return answer
