"""List dead letters, newest first, redrive one as a new run, and dismiss one that needs no more attention.

A letter is redriven once. The id of the new run is derived from the letter, and a first commit is accepted
only if the run does not exist. So two concurrent redrives, or a repetition after a lost answer, create one
run. With `again` a further run is created with the next derived id.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from pyoco_server import clock
from pyoco_server.cursors import Scope, TokenRefused, seal, unseal
from pyoco_server.errors import Conflict, Invalid, NotFound
from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.names import check_routing_tag, is_run_id
from pyoco_server.operations.fleet.publish_dead_letter import EXECUTION_ERROR
from pyoco_server.operations.identity.callers import Caller
from pyoco_server.operations.runs.submit import submit
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.queue.dead_letters import DeadLetter, KeptLetter
from pyoco_server.store.queue.dismissals import Dismissal
from pyoco_server.store.queue.jobs import Job, UnreadableJob, decode_job, submission_of
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store

log = logging.getLogger(__name__)

INVALID_JOB = "invalid_job"
# How many letters one request reads at most; the next page continues there.
LOOKED_AT_MAX = 2_000
REDRIVES_MAX = 100
# The dismissals of so many letters are read with one request.
CHECKED_AT_ONCE = 64
CURSOR = "dead letters"

_NAMESPACE = uuid.UUID("1f0a1c52-7f0e-5f6e-9d49-0c6f7a1b5d11")


class LetterKind(StrEnum):
    """DELIVERY: the run could not be delivered to a worker, or not started. EXECUTION: its code failed."""

    DELIVERY = "delivery"
    EXECUTION = "execution"


class DeadLetterQuery(NamedTuple):
    """`dismissed`: also letters that were dismissed."""

    limit: int
    reason: str | None = None
    kind: LetterKind | None = None
    dismissed: bool = False
    cursor: str | None = None


class ShownLetter(NamedTuple):
    """`redriven_as`: the first run that the letter was redriven as, according to the read model."""

    kept: KeptLetter
    kind: LetterKind
    dismissal: Dismissal | None
    redriven_as: str | None


class Page(NamedTuple):
    """`next_cursor`: for the letters that were not read yet; None at the end. A page may have no letters."""

    letters: list[ShownLetter]
    next_cursor: str | None


async def list_letters(store: Store, read_model: ReadModel, caller: Caller, asked: DeadLetterQuery) -> Page:
    secret = await store.secrets.for_tokens()
    scope: Scope = {
        "tenant": caller.tenant_id,
        "reason": asked.reason,
        "kind": asked.kind,
        "dismissed": asked.dismissed,
    }
    before = _before(secret, scope, asked.cursor) if asked.cursor else None
    found: list[ShownLetter] = []
    looked_at, last = 0, 0
    async for kept, dismissal in _with_dismissals(store, store.dead_letters.newest_first(before)):
        if len(found) >= asked.limit or looked_at >= LOOKED_AT_MAX:
            return Page(found, seal(secret, CURSOR, scope, [last]))
        looked_at, last = looked_at + 1, kept.seq
        is_left_out = dismissal is not None and not asked.dismissed
        if not is_left_out and _is_asked(kept.letter, asked) and _is_visible(kept.letter, read_model, caller):
            found.append(_shown(store, read_model, kept, dismissal))
    return Page(found, None)


async def get_letter(store: Store, read_model: ReadModel, caller: Caller, seq: int) -> ShownLetter:
    kept = await store.dead_letters.get(seq)
    if kept is None or not _is_visible(kept.letter, read_model, caller):
        raise NotFound(f"There is no dead letter {seq}. Look at GET /dlq.", err_id="")
    return _shown(store, read_model, kept, (await store.dismissals.of([kept])).get(seq))


async def dismiss(store: Store, caller: Caller, kept: KeptLetter, note: str | None) -> Dismissal:
    """The letter needs no more attention. The first dismissal counts; a repetition returns it."""
    asked = Dismissal(at=clock.now(), by=caller.principal, note=note)
    dismissal = await store.dismissals.create(kept, asked)
    if dismissal is asked:
        fields = {"letter_id": kept.seq, "run_id": kept.letter.run_id, "by": asked.by, "note": note}
        log.info("dead letter dismissed", extra=fields | {"tenant_id": caller.tenant_id})
    return dismissal


def kind_of(letter: DeadLetter) -> LetterKind:
    return LetterKind.EXECUTION if letter.reason == EXECUTION_ERROR else LetterKind.DELIVERY


async def redrive(store: Store, caller: Caller, kept: KeptLetter, *, again: bool = False) -> StoredRun:
    """A new run from the letter. Conflict if there is nothing to run, or if it was redriven already."""
    submission = replace(
        await _submission(store, kept.letter),
        at=clock.now(),
        api_key_id=caller.api_key_id,
        retry_of=kept.letter.run_id,
    )
    for number in range(REDRIVES_MAX):
        run_id = _derived_id(store, kept, number)
        try:
            return await submit(store, replace(submission, run_id=run_id))
        except Conflict:
            if not again and not await store.runs.was_discarded(run_id):
                raise Conflict(
                    f"Dead letter {kept.seq} was redriven already, as run {run_id}. "
                    'Send {"again": true} for another one.'
                ) from None
    raise Conflict(f"Dead letter {kept.seq} was redriven {REDRIVES_MAX} times. Submit the run yourself.")


async def _with_dismissals(
    store: Store, letters: AsyncIterator[KeptLetter]
) -> AsyncIterator[tuple[KeptLetter, Dismissal | None]]:
    """In batches, so that a long list needs few requests."""
    batch: list[KeptLetter] = []
    async for kept in letters:
        batch.append(kept)
        if len(batch) >= CHECKED_AT_ONCE:
            for one in await _checked(store, batch):
                yield one
            batch = []
    for one in await _checked(store, batch):
        yield one


async def _checked(store: Store, letters: list[KeptLetter]) -> list[tuple[KeptLetter, Dismissal | None]]:
    found = await store.dismissals.of(letters)
    return [(kept, found.get(kept.seq)) for kept in letters]


def _is_asked(letter: DeadLetter, asked: DeadLetterQuery) -> bool:
    return asked.reason in (None, letter.reason) and asked.kind in (None, kind_of(letter))


def _shown(store: Store, read_model: ReadModel, kept: KeptLetter, dismissal: Dismissal | None) -> ShownLetter:
    run_id = _derived_id(store, kept, 0)
    redriven_as = run_id if read_model.find(run_id) is not None else None
    return ShownLetter(kept, kind_of(kept.letter), dismissal, redriven_as)


def _before(secret: bytes, scope: Scope, cursor: str) -> int:
    try:
        [before] = unseal(secret, CURSOR, scope, cursor)
    except (TokenRefused, ValueError) as error:
        message = "cursor must be the next_cursor of a page with the same filters."
        raise Invalid.at(["query", "cursor"], message) from error
    return before


async def _submission(store: Store, letter: DeadLetter) -> RunSubmitted:
    if letter.reason == INVALID_JOB:
        raise Conflict(
            "The message was no job, so there is nothing to run: correct its publisher "
            f"(subject {letter.subject}), and publish it again."
        )
    known = letter.run_id is not None and is_run_id(letter.run_id)
    submission = await store.runs.submission(letter.run_id or "") if known else None
    if submission is None and (job := _job(letter)) is not None:
        submission = submission_of(job)
        check_routing_tag(submission.tag)
    if submission is None:
        raise Conflict("The run is gone, and the letter has not all of its job: submit it yourself.")
    return submission


def _derived_id(store: Store, kept: KeptLetter, number: int) -> str:
    """With run and time: after a stream was created again, the sequence alone would name another letter."""
    letter = kept.letter
    name = (store.config.dlq_stream, kept.seq, letter.run_id, letter.timestamp, number)
    return str(uuid.uuid5(_NAMESPACE, repr(name)))


def _is_visible(letter: DeadLetter, read_model: ReadModel, caller: Caller) -> bool:
    return caller.tenant_id in (None, _tenant_of(letter, read_model))


def _tenant_of(letter: DeadLetter, read_model: ReadModel) -> str | None:
    """A letter does not contain the tenant; its run and its job do."""
    run = read_model.find(letter.run_id) if letter.run_id else None
    if run is not None:
        return run.tenant_id
    job = _job(letter)
    return job.tenant_id if job is not None else None


def _job(letter: DeadLetter) -> Job | None:
    try:
        return decode_job(letter.payload.encode()) if letter.payload else None
    except UnreadableJob:
        return None
