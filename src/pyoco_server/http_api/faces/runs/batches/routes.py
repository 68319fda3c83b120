"""`/runs/batch`: submit many runs in one request. `/batches`: list, read, follow and cancel batches."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from pyoco_server import clock
from pyoco_server.errors import PyocoError, Unavailable
from pyoco_server.http_api.context import Store, ready_gateway
from pyoco_server.http_api.faces.runs import params, wire
from pyoco_server.http_api.faces.runs.batches.body import (
    BODY_BYTES_MAX,
    ITEMS_MAX,
    NDJSON,
    ItemReader,
    items_of,
)
from pyoco_server.http_api.middleware.callers import caller_of
from pyoco_server.http_api.requests.bodies import small_body
from pyoco_server.http_api.requests.idempotency import REPLAYED, key_of, key_param
from pyoco_server.http_api.responses.json import json_answer
from pyoco_server.http_api.routing.kinds import FlagKind
from pyoco_server.http_api.routing.operation import Content, Operation, events, json_body, json_of
from pyoco_server.http_api.routing.params import Param, path
from pyoco_server.http_api.routing.schemas import OBJECT, TEXT, array, record, ref
from pyoco_server.http_api.streaming import sse
from pyoco_server.http_api.streaming.reader_source import ReaderSource
from pyoco_server.ids import new_uuid
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.status import RunStatus
from pyoco_server.operations.batches import cancel, records
from pyoco_server.operations.batches.progress import is_over
from pyoco_server.operations.batches.submit import BatchSubmission, ItemOutcome, outcomes_of
from pyoco_server.operations.idempotency.keyed_request import KeyedRequest, RecordedAnswer
from pyoco_server.operations.idempotency.request_digest import RequestDigest
from pyoco_server.read_model.run_rows import WAITING
from pyoco_server.store.batches import RunBatch
from pyoco_server.supervision import start_task
from pyoco_server.texts import Language, choose_language

BATCH_ID = path("batch_id")
ATOMIC = Param("atomic", FlagKind(), False, "Submit nothing if an item is invalid: 422 names the items.")


async def submit_batch(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    key, atomic = key_of(request), ATOMIC.read(request)
    language = choose_language(request.headers.get("accept-language"))
    items = await items_of(request)
    reader = ItemReader(request.headers, caller, gateway.config)
    if atomic:
        await reader.check_all(items)
    store = gateway.store
    async with AsyncExitStack() as stack:
        keyed, batch_id = None, new_uuid()
        if key is not None:
            digest = RequestDigest(digest=await asyncio.to_thread(_digest, items))
            keyed = await stack.enter_async_context(KeyedRequest(store, key, digest, needs_room=True))
            if keyed.earlier is not None:
                batch = msgspec.json.decode(keyed.earlier.body, type=RunBatch)
                lines = _replayed(batch, reader, items, language)
                return StreamingResponse(lines, media_type=NDJSON, headers={REPLAYED: "true"})
            batch_id = keyed.reservation.resource_id
        begun = RunBatch(
            batch_id=batch_id,
            created_at=clock.now(),
            total=len(items),
            tenant_id=caller.tenant_id,
            api_key_id=caller.api_key_id,
        )
        submission = BatchSubmission(store, await records.begin(store, begun))
        lines = _submitted(stack.pop_all(), keyed, submission, reader, items, language)
        return StreamingResponse(lines, media_type=NDJSON)
    raise AssertionError("the block above returns")


async def list_batches(request: Request) -> Response:
    store, limit = ready_gateway(request).store, params.LIMIT.read(request)
    found = await records.list_batches(store, limit, tenant_id=caller_of(request).tenant_id)
    return json_answer([_record(batch) for batch in found])


async def get_batch(request: Request) -> Response:
    gateway = ready_gateway(request)
    batch = await _batch_of(request, gateway.store)
    await gateway.read_model.catch_up()
    return json_answer(_progress(batch, gateway.read_model.runs.counts_of_batch(batch.batch_id)))


async def watch_batch(request: Request) -> Response:
    gateway, timeout_sec = ready_gateway(request), params.TIMEOUT_SEC.read(request)
    batch = await _batch_of(request, gateway.store)
    await gateway.read_model.catch_up()
    changes = gateway.batch_changes
    reader = changes.subscribe(batch)
    keeping = start_task(reader.keep_current(gateway.store), "reading the record of a batch")

    def render(counts: dict[str, int]) -> sse.EventBatch:
        return sse.event("batch", msgspec.json.encode(_progress(reader.batch, counts)))

    def leave() -> None:
        keeping.cancel()
        changes.unsubscribe(reader)

    source = ReaderSource(reader, render, leave=leave)
    return sse.EventStream(source, gateway.streams, timeout_sec=timeout_sec)


async def cancel_batch(request: Request) -> Response:
    gateway, caller = ready_gateway(request), caller_of(request)
    reason = wire.cancel_reason(await small_body(request))
    batch = await cancel.cancel_batch(
        gateway.store,
        str(request.path_params["batch_id"]),
        by=caller.principal,
        reason=reason,
        tenant_id=caller.tenant_id,
    )
    await cancel.cancel_its_runs_soon(gateway.store, gateway.read_model, batch)
    await gateway.read_model.catch_up()
    return json_answer(_progress(batch, gateway.read_model.runs.counts_of_batch(batch.batch_id)))


async def _batch_of(request: Request, store: Store) -> RunBatch:
    batch_id = str(request.path_params["batch_id"])
    return await records.get_batch(store, batch_id, tenant_id=caller_of(request).tenant_id)


async def _submitted(
    stack: AsyncExitStack,
    keyed: KeyedRequest | None,
    submission: BatchSubmission,
    reader: ItemReader,
    items: Sequence[bytes],
    language: Language,
) -> AsyncIterator[bytes]:
    """The lines of the answer, each portion when it is stored. After trouble the reservation is given up."""
    yield _first(submission.batch)
    trouble: PyocoError | None = None
    try:
        async with stack:
            async for outcomes in submission.outcomes(reader.portions(items)):
                yield _lines(outcomes, language)
            if submission.trouble is not None:
                raise submission.trouble
            if keyed is not None:
                answer = RecordedAnswer(status=200, body=msgspec.json.encode(submission.batch))
                await keyed.remember(answer)
    except Unavailable as error:
        trouble = error
    yield _last(submission.batch, submission.accepted, submission.refused, trouble, language)


async def _replayed(
    batch: RunBatch, reader: ItemReader, items: Sequence[bytes], language: Language
) -> AsyncIterator[bytes]:
    yield _first(batch)
    for portion in reader.portions(items):
        yield _lines(outcomes_of(batch, portion), language)
        await asyncio.sleep(0)  # let other requests be served
    yield _last(batch, batch.accepted, batch.refused, None, language)


def _digest(items: Sequence[bytes]) -> str:
    """Of the items as they were sent: a repetition sends the same bytes."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(b"%d:" % len(item))
        digest.update(item)
    return digest.hexdigest()


def _first(batch: RunBatch) -> bytes:
    return _line({"batch_id": batch.batch_id, "total": batch.total})


def _lines(outcomes: Sequence[ItemOutcome], language: Language) -> bytes:
    return b"".join(_line(_outcome(one, language)) for one in outcomes)


def _outcome(one: ItemOutcome, language: Language) -> JsonObject:
    shown: JsonObject = {"index": one.position}
    if one.run_id is not None:
        shown["run_id"] = one.run_id
    if one.error is None:
        return shown | {"status": RunStatus.PENDING}
    return shown | {"error": wire.error_body(one.error, language)}


def _last(
    batch: RunBatch, accepted: int, refused: int, trouble: PyocoError | None, language: Language
) -> bytes:
    shown: JsonObject = {
        "batch_id": batch.batch_id,
        "total": batch.total,
        "accepted": accepted,
        "refused": refused,
        "complete": trouble is None,
    }
    return _line(shown if trouble is None else shown | {"error": wire.error_body(trouble, language)})


def _line(value: JsonObject) -> bytes:
    return msgspec.json.encode(value) + b"\n"


def _record(batch: RunBatch) -> JsonObject:
    shown: JsonObject = {
        "batch_id": batch.batch_id,
        "created_at": batch.created_at,
        "total": batch.total,
        "submitted_at": batch.submitted_at,
        "accepted": batch.accepted,
        "refused": batch.refused,
        "cancelled_at": None,
    }
    if batch.cancel is not None:
        shown |= {
            "cancelled_at": batch.cancel.at,
            "cancelled_by": batch.cancel.by,
            "cancel_reason": batch.cancel.reason,
        }
    return shown


def _progress(batch: RunBatch, counts: dict[str, int]) -> JsonObject:
    listed = {status: count for status, count in counts.items() if status != WAITING}
    running = counts.get(RunStatus.RUNNING.value, 0) + wire.waiting(counts)
    return _record(batch) | {
        "counts": wire.counts(listed | {RunStatus.RUNNING.value: running}),
        "waiting": wire.waiting(counts),
        "is_over": is_over(batch, counts),
    }


_SUBMIT = f"""The body is a JSON array of submissions as for `POST /runs`, or one in each line with
`Content-Type: {NDJSON}`; at most {ITEMS_MAX:,} items and {BODY_BYTES_MAX // 2**20} MiB. The answer is
lines of JSON: first `{{batch_id, total}}`; then for each item, in order, `{{index, run_id, status}}` or
`{{index, error}}`; at last `{{batch_id, total, accepted, refused, complete}}`. An invalid item is refused
by itself, unless `atomic`. `complete` is false if the broker stopped to answer: send the same request again,
with the same key; it finds the runs that exist and submits the rest. Bodies are compared by their bytes."""
_PROGRESS = """`counts`: its runs by status. `submitted_at` is null while the request submits, and stays null
after an interruption. A batch is listed for 30 days; its runs are found with `GET /runs?batch_id=`."""
_CANCEL = """Every run of the batch that has not ended is cancelled, also those that a request still submits.
The answer comes when the cancel is stored; the runs of a large batch follow within seconds."""
_ITEMS = {"type": "array", "items": ref("RunSubmitRequest"), "minItems": 1, "maxItems": ITEMS_MAX}
OPERATIONS = [
    Operation(
        "POST",
        "/runs/batch",
        submit_batch,
        "Submit many runs",
        {200: Content("One line for each item", {NDJSON: TEXT})},
        [ATOMIC, key_param()],
        Content(kinds={"application/json": _ITEMS, NDJSON: TEXT}),
        errors=[409, 413, 415, 422],
        description=_SUBMIT,
    ),
    Operation(
        "GET",
        "/batches",
        list_batches,
        "List batches, newest first",
        {200: json_of("Batches without the sums of their runs", array(OBJECT))},
        [params.LIMIT],
        errors=[422],
    ),
    Operation(
        "GET",
        "/batches/{batch_id}",
        get_batch,
        "One batch, with its runs by status",
        {200: json_of("The batch", OBJECT)},
        [BATCH_ID],
        errors=[404],
        description=_PROGRESS,
    ),
    Operation(
        "GET",
        "/batches/{batch_id}/watch",
        watch_batch,
        "Follow a batch as server-sent events",
        {200: events("`event: batch` with the batch, at once and when its sums change, until it is over")},
        [BATCH_ID, params.TIMEOUT_SEC],
        errors=[404, 422, 429],
    ),
    Operation(
        "POST",
        "/batches/{batch_id}/cancel",
        cancel_batch,
        "Cancel all runs of a batch; an accepted cancel is never undone",
        {200: json_of("The batch", OBJECT)},
        [BATCH_ID],
        json_body(record([], {"reason": TEXT}), required=False),
        errors=[404, 413, 415, 422],
        description=_CANCEL,
    ),
]
