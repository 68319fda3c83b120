"""Requests of the runs face with an `Idempotency-Key`: one effect per key. Requests are validated before."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

import msgspec
from msgspec.structs import replace
from starlette.datastructures import FormData
from starlette.responses import Response

from pyoco_server.errors import NotFound
from pyoco_server.http_api.context import Store
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.http_api.requests.idempotency import once_answer
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey
from pyoco_server.operations.idempotency.keyed_request import KeyedRequest, RecordedAnswer, Reservation
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs import cancel, retry, submit
from pyoco_server.store.runs.stored_run import StoredRun


async def submit_once(
    store: Store, key: IdempotencyKey, asked: bytes | JsonObject, submission: RunSubmitted
) -> Response:
    async def prepare() -> RunSubmitted:
        return submission

    return await submit_prepared_once(store, key, asked, prepare)


async def submit_prepared_once(
    store: Store,
    key: IdempotencyKey,
    asked: bytes | JsonObject,
    prepare: Callable[[], Awaitable[RunSubmitted]],
) -> Response:
    """`prepare` may refuse because of what is stored. A repetition does not call it if the run exists, also
    when the gateway of the first request ended before it had stored the answer.
    """
    async with KeyedRequest(store, key, asked, needs_room=True) as keyed:
        if keyed.earlier is not None:
            return once_answer(keyed.earlier)
        reservation = keyed.reservation
        stored = await _submitted_before(store, reservation)
        if stored is None:
            submission = replace(await prepare(), run_id=reservation.resource_id)
            stored = await submit.submit(store, submission, commit_id=reservation.command_id)
        return await _remember(keyed, wire.accepted(stored), reservation.event_ids(1))


async def retry_once(
    store: Store, key: IdempotencyKey, asked: bytes, run_id: str, wanted: retry.RetryRequest, caller: Caller
) -> Response:
    async with KeyedRequest(store, key, asked, needs_room=True) as keyed:
        if keyed.earlier is not None:
            return once_answer(keyed.earlier)
        reservation = keyed.reservation
        try:
            stored = await retry.retry(store, run_id, wanted, caller, reservation=reservation)
        except NotFound:  # the run to retry has been erased: the new run may exist all the same
            existing = await _submitted_before(store, reservation)
            if existing is None:
                raise
            stored = existing
        return await _remember(keyed, wire.retried(stored), reservation.event_ids(1))


async def cancel_once(
    store: Store, key: IdempotencyKey, asked: bytes, run_id: str, reason: str | None, caller: Caller
) -> Response:
    async with KeyedRequest(store, key, asked, resource_id=run_id) as keyed:
        if keyed.earlier is not None:
            return once_answer(keyed.earlier)
        reservation = keyed.reservation
        applied = await cancel.cancel_run(
            store,
            run_id,
            by=caller.principal,
            reason=reason,
            tenant_id=caller.tenant_id,
            reservation=reservation,
        )
        shown = wire.snapshot(cancel.as_requested(applied), records=False)
        return await _remember(keyed, shown, reservation.event_ids(len(applied.events)))


def asked_in(form: FormData, workflow: bytes) -> JsonObject:
    """The content of a form for the digest. The multipart boundary differs per request, so it is left out."""
    texts: dict[str, list[str]] = {}
    for name, value in form.multi_items():
        if isinstance(value, str):
            texts.setdefault(name, []).append(value)
    return {**texts, "workflow": hashlib.sha256(workflow).hexdigest()}


async def _submitted_before(store: Store, reservation: Reservation) -> StoredRun | None:
    """The run of an earlier holder of this reservation."""
    return await submit.resume(store, reservation.resource_id) if reservation.may_have_happened else None


async def _remember(keyed: KeyedRequest, shown: JsonObject, event_ids: list[str]) -> Response:
    answer = RecordedAnswer(status=200, body=msgspec.json.encode(shown), event_ids=event_ids)
    return once_answer(await keyed.remember(answer))
