"""A node that was cut off shows old logs: nothing is removed, given up or begun by what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
import pytest

from pyoco_server import clock
from pyoco_server.clock import elapsed
from pyoco_server.engine import WaitAnswer
from pyoco_server.errors import Unavailable
from pyoco_server.housekeeping.missing_letters import MissingLetters
from pyoco_server.jetstream.descriptions import StreamInfo
from pyoco_server.lifecycle.commands import ClaimRun, CompleteRun, FailRun, ReportLoss, SucceedTask
from pyoco_server.lifecycle.status import LossCause, OutputKept
from pyoco_server.operations.fleet.publish_dead_letter import EXECUTION_ERROR
from pyoco_server.operations.rechecks.context import EndedBatch, NotEnded
from pyoco_server.operations.rechecks.workers import OLD_READ_SEC_MAX, OwnWorkers
from pyoco_server.operations.runs.apply import apply
from pyoco_server.operations.runs.leftovers import clear_up
from pyoco_server.read_model.runs import ReadModel
from pyoco_server.store.queue.job_puller import Delivery
from pyoco_server.store.run_notes import RunNote
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.runs.results import ResultReference
from pyoco_server.store.store import Store
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.presence.lease_deadline import LeaseDeadline
from pyoco_server.worker.recording.recorder import Recorder
from pyoco_server.worker.recording.uploads import Uploads
from tests.conftest import until
from tests.faults.cluster.copies import show_as_of_now, with_copies
from tests.faults.faulty_client import Fault, Faults
from tests.worker.stage import submitted

RESULT = b'"large"'


async def test_a_worker_removes_no_result_that_a_later_commit_refers_to(
    store: Store, faulty_store: Store
) -> None:
    with_copies(faulty_store)
    run_id = await _claimed(store)
    uploads = Uploads(faulty_store, run_id, 1, lambda: None)
    uploads._has_begun = True
    reference = await store.results.put(run_id, 1, "t", 1, RESULT)
    await show_as_of_now(faulty_store)
    await _record(store, run_id, reference)
    uploads.stop()
    await uploads.wait_until_stopped()
    assert len(await store.results.objects.list()) == 1
    assert [noted.run_id for noted in await store.leftovers.oldest(9)] == [run_id]


async def test_uploads_go_on_where_the_run_is_shown_as_before_their_claim(
    store: Store, faulty_store: Store
) -> None:
    run_id = await submitted(store)
    await show_as_of_now(faulty_store)
    await _claim(store, run_id)
    await Uploads(faulty_store, run_id, 1, lambda: None)._check_ours()


async def test_housekeeping_removes_no_result_by_a_log_that_is_cut_short(
    store: Store, faulty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await _claimed(store)
    reference = await store.results.put(run_id, 1, "t", 1, RESULT)
    await show_as_of_now(faulty_store)
    await _record(store, run_id, reference)
    await apply(store, run_id, CompleteRun(fence=1))
    _is_loaded(monkeypatch, faulty_store, await store.runs.load(run_id))
    with pytest.raises(Unavailable):
        await clear_up(faulty_store, RunNote(run_id, (), 1, 3600.0), not_begun_sec=60.0)
    assert len(await store.results.objects.list()) == 1


async def test_a_recheck_is_not_given_up_because_its_result_is_not_shown_yet(
    store: Store, faulty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The outcome of a batch is final. A result that stays missing ends it; with one copy, at once."""
    run_id = await _claimed(store)
    reference = await store.results.put(run_id, 1, "t", 1, RESULT)
    await _record(store, run_id, reference)
    await apply(store, run_id, CompleteRun(fence=1))
    await store.results.remove_all(run_id, ())
    assert isinstance(await OwnWorkers(store).read_end(run_id), EndedBatch)
    with_copies(faulty_store)
    assert await OwnWorkers(faulty_store).read_end(run_id) is NotEnded.RUNNING
    later = clock.now() + OLD_READ_SEC_MAX
    monkeypatch.setattr(clock, "now", lambda: later)
    ended = await OwnWorkers(faulty_store).read_end(run_id)
    assert isinstance(ended, EndedBatch)
    assert ended.error


async def test_a_dead_letter_is_not_given_up_by_a_log_that_is_cut_short(
    store: Store, faulty_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = await _claimed(store)
    await show_as_of_now(faulty_store)
    await apply(store, run_id, FailRun(fence=1, reason=EXECUTION_ERROR, error="no"))
    await store.owed_letters.note(run_id, EXECUTION_ERROR)
    _is_loaded(monkeypatch, faulty_store, await store.runs.load(run_id))
    await MissingLetters(faulty_store, settled_sec=0.0).look()
    assert [noted.run_id for noted in await store.owed_letters.oldest(9)] == [run_id]
    assert await MissingLetters(store, settled_sec=0.0).look() == 1


async def test_a_worker_goes_on_with_a_run_that_is_shown_as_before_its_claim(
    store: Store, faulty_store: Store
) -> None:
    run_id = await submitted(store)
    delivery = await _delivery(store)
    await show_as_of_now(faulty_store)
    recorder = Recorder(faulty_store, await _claim(store, run_id), lambda _: None)
    async with AttemptMonitor(faulty_store, delivery, run_id, LeaseDeadline(5.0)) as under_way:
        under_way.begin(_Engine(), recorder)
        await under_way._catch_up()
        assert not under_way.is_abandoned


async def test_a_worker_whose_lease_had_lapsed_starts_nothing_by_an_old_log(
    store: Store, faulty_store: Store
) -> None:
    """The log still shows its claim; a majority knows that the run was taken from it."""
    with_copies(faulty_store)
    run_id = await submitted(store)
    delivery = await _delivery(store)
    recorder = Recorder(faulty_store, await _claim(store, run_id), lambda _: None)
    await show_as_of_now(faulty_store)
    loss = ReportLoss(fence=1, cause=LossCause.WORKER_LOST, losses_max=9, crashes_max=9, detail="")
    await apply(store, run_id, loss)
    lease = LeaseDeadline(5.0)
    lease.renew(elapsed())
    async with AttemptMonitor(faulty_store, delivery, run_id, lease) as under_way:
        under_way.begin(_Engine(), recorder)
        assert under_way.may_start()
        under_way._on_renewed(has_lapsed=True)
        await under_way._catch_up()
        assert not under_way.may_start()


async def test_a_list_is_not_thrown_away_because_one_node_has_less(
    store: Store, faulty_store: Store, faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway comes to a node that was cut off before the commits that the gateway has read."""
    with_copies(faulty_store)
    run_id = await submitted(store)
    model = ReadModel(faulty_store.client, faulty_store.jetstream, faulty_store.config)
    await model.start()
    await model.catch_up()
    _shows_an_empty_log(monkeypatch, faulty_store, faults)
    faults.add(re.compile(r"\.events\.\$confirm$"), Fault.LOSE_REQUEST, times=1000)
    model.handle_reconnect()
    await until(lambda: faults.happened)
    faults.is_on = False
    await until(lambda: model.feed.restarts == 2)
    assert model.rebuilds == 0
    assert model.find(run_id) is not None
    await model.stop()


def _shows_an_empty_log(monkeypatch: pytest.MonkeyPatch, store: Store, faults: Faults) -> None:
    ask = store.jetstream.stream_info

    async def stream_info(stream: str, asked: Mapping[str, object] | None = None) -> StreamInfo:
        info = await ask(stream, asked)
        if faults.is_on and stream == store.config.events_stream:
            return msgspec.structs.replace(info, state=msgspec.structs.replace(info.state, last_seq=0))
        return info

    monkeypatch.setattr(store.jetstream, "stream_info", stream_info)


class _Engine:
    """Executes nothing."""

    def cancel(self, run_id: str) -> None: ...

    def abandon(self, run_id: str) -> None: ...

    def answer(self, run_id: str, task: str, answer: WaitAnswer) -> None: ...

    def grant(self, run_id: str, until: float) -> None: ...


async def _delivery(store: Store) -> Delivery:
    puller = await store.queue.pull(["default"])
    delivery = await puller.next(5.0)
    await puller.close()
    assert delivery is not None
    return delivery


def _is_loaded(monkeypatch: pytest.MonkeyPatch, store: Store, stored: StoredRun | None) -> None:
    """By another node: the connection changes between two requests."""

    async def load(_run_id: str, **_how: bool) -> StoredRun | None:
        return stored

    monkeypatch.setattr(store.runs, "load", load)


async def _claimed(store: Store) -> str:
    run_id = await submitted(store)
    await _claim(store, run_id)
    return run_id


async def _claim(store: Store, run_id: str) -> StoredRun:
    claimed = (await apply(store, run_id, ClaimRun(worker_id="w", instance_id="w.1", job_no=1))).after
    assert claimed is not None
    return claimed


async def _record(store: Store, run_id: str, reference: ResultReference) -> None:
    succeeded = SucceedTask(
        fence=1, task="t", attempt=1, started_at=1.0, ended_at=2.0,
        output=msgspec.Raw(msgspec.json.encode(reference)), kept=OutputKept.REFERENCED,
    )  # fmt: skip
    await apply(store, run_id, succeeded)
