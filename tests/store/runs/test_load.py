"""Whatever lies in the bucket: a run is what its log says, and the bucket is put right."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle.events import RunCompleted
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.snapshot import snapshot_of
from pyoco_server.store.runs import stored_run
from pyoco_server.store.runs.codec import encode_snapshot
from pyoco_server.store.runs.log import StoredRun
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, until
from tests.store.making import (
    START,
    begun,
    claimed,
    committed,
    config_on,
    purge_key,
    put_bytes,
    stored_bytes,
    submission,
    tagged,
    task_done,
)

UPSTREAM = {
    "run_id": "?",
    "flow_name": "greet",
    "status": "RUNNING",
    "params": {},
    "tasks": {"a": "RUNNING"},
    "heartbeat_at": 1.0,
    "updated_at": 1.0,
}


def snapshot_bytes(stored: StoredRun) -> bytes:
    return encode_snapshot(
        snapshot_of(stored.run, max_bytes=262_144, commits=stored.commits, log_seq=stored.log_seq)
    )


async def lived(store: Store) -> list[StoredRun]:
    """A run after each of its five commits; the bucket has the last one."""
    born = await begun(store)
    life = [born, await committed(store, born, claimed())]
    for name in ("a", "b"):
        life.append(await committed(store, life[-1], *task_done(name, START + 2)))
    life.append(await committed(store, life[-1], RunCompleted(at=START + 9)))
    await store.runs.snapshots.project(replace(life[-1], revision=born.revision))
    return life


async def delete_key(store: Store, life: list[StoredRun]) -> None:
    entry = await store.runs.snapshots.bucket.get(life[0].run.run_id)
    await store.runs.snapshots.bucket.delete(life[0].run.run_id, revision=entry.revision)


async def lose_key(store: Store, life: list[StoredRun]) -> None:
    await purge_key(store, life[0].run.run_id)


def put(make: Callable[[list[StoredRun]], bytes]) -> Callable[[Store, list[StoredRun]], Awaitable[None]]:
    async def do(store: Store, life: list[StoredRun]) -> None:
        await put_bytes(store, life[0].run.run_id, make(life))

    return do


DAMAGES: dict[str, Callable[[Store, list[StoredRun]], Awaitable[None]]] = {
    "deleted": delete_key,
    "never there": lose_key,
    "one commit behind": put(lambda life: snapshot_bytes(life[-2])),
    "three commits behind": put(lambda life: snapshot_bytes(life[1])),
    "as at its creation": put(lambda life: snapshot_bytes(replace(life[0], log_seq=0))),
    "truncated": put(lambda life: snapshot_bytes(life[-1])[:300]),
    "empty": put(lambda _: b""),
    "garbage": put(lambda _: b"\xff\x00 no snapshot"),
    "by upstream": put(lambda life: msgspec.json.encode(UPSTREAM | {"run_id": life[0].run.run_id})),
    "of another run's beginning": put(
        lambda life: snapshot_bytes(
            replace(life[0], log_seq=0, run=replace(life[0].run, params={"phantom": True}))
        )
    ),
    "of an end that the log does not have": put(
        lambda life: snapshot_bytes(
            replace(life[-1], log_seq=life[-1].log_seq + 1, run=replace(life[-1].run, error="phantom"))
        )
    ),
    "ahead of the log": put(
        lambda life: snapshot_bytes(
            replace(life[-1], commits=9, log_seq=99, run=replace(life[-1].run, error="phantom"))
        )
    ),
}


@pytest.fixture(autouse=True)
def _heal_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_run, "HEAL_AFTER_SEC", 0.0)


@pytest.mark.parametrize("at_leader", [False, True], ids=["anywhere", "at leader"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_run_is_what_its_log_says(store: Store, damage: str, at_leader: bool) -> None:
    life = await lived(store)
    await DAMAGES[damage](store, life)
    found = await store.runs.load(life[0].run.run_id, at_leader=at_leader)
    assert found is not None
    assert (found.run, found.commits, found.log_seq) == (life[-1].run, 5, life[-1].log_seq)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_reader_puts_the_bucket_right(store: Store, damage: str) -> None:
    life = await lived(store)
    run_id = life[0].run.run_id
    await DAMAGES[damage](store, life)
    await store.runs.load(run_id, at_leader=True)

    async def is_healed() -> bool:
        return await stored_bytes(store, run_id) == snapshot_bytes(life[-1])

    await until(is_healed)


@pytest.mark.parametrize("damage", DAMAGES)
async def test_a_commit_on_what_was_loaded_stands_and_is_shown(store: Store, damage: str) -> None:
    """The revision that came with it is that of the bucket, so the next snapshot gets in."""
    life = await lived(store)
    await DAMAGES[damage](store, life)
    found = await store.runs.load(life[0].run.run_id)
    assert found is not None
    after = await store.runs.snapshots.project(await tagged(store, found, "late"))
    assert await stored_bytes(store, life[0].run.run_id) == snapshot_bytes(after)
    again = await store.runs.load(life[0].run.run_id)
    assert again is not None
    assert (again.run, again.commits, again.revision) == (after.run, after.commits, after.revision)


async def test_a_snapshot_that_is_right_is_left_alone(store: Store) -> None:
    life = await lived(store)
    born = await begun(store)
    for stored in (life[-1], born):
        before = await store.runs.snapshots.bucket.get(stored.run.run_id)
        await store.runs.load(stored.run.run_id, at_leader=True)
        await store.runs.load(stored.run.run_id)
        assert not store.runs.snapshots._healing
        assert await store.runs.snapshots.bucket.get(stored.run.run_id) == before


async def test_a_snapshot_just_behind_is_left_to_whoever_committed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_run, "HEAL_AFTER_SEC", 600.0)
    born = await begun(store)
    after = await store.runs.snapshots.project(await tagged(store, born, "a"))
    await tagged(store, after, "b")
    found = await store.runs.load(born.run.run_id)
    assert found is not None
    assert found.commits == 3
    assert not store.runs.snapshots._healing


async def test_a_submission_that_a_lagging_copy_does_not_have_is_read_at_the_leader(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    life = await lived(store)
    monkeypatch.setattr(store.jetstream, "first", _nothing)
    found = await store.runs.submission(life[0].run.run_id)
    assert found is not None
    assert found.run_id == life[0].run.run_id
    assert await store.runs.submission("none") is None


async def _nothing(stream: str, subject: str) -> None:
    """What a copy answers that lags behind."""


async def test_a_run_that_never_was_is_none(store: Store) -> None:
    assert await store.runs.load(submission().run_id) is None
    assert await store.runs.load(submission().run_id, at_leader=True) is None
    assert await store.runs.submission(submission().run_id) is None
    assert await store.runs.events(submission().run_id) == []
    assert await store.runs.snapshots.get(submission().run_id) is None


@pytest.mark.parametrize("run_id", ["*", ">", "a.b", "a b", "x\r\nPUB y 0\r\n", ""])
async def test_what_is_no_run_id_finds_nothing(store: Store, run_id: str) -> None:
    await begun(store)
    assert await store.runs.load(run_id) is None
    assert await store.runs.load(run_id, at_leader=True) is None


async def test_a_snapshot_without_its_log_is_no_run(store: Store) -> None:
    born = await begun(store)
    other = submission().run_id
    await put_bytes(store, other, snapshot_bytes(replace(born, run=replace(born.run, run_id=other))))
    assert await store.runs.load(other) is None


async def test_commits_that_are_not_understood_are_counted_and_stepped_over(store: Store) -> None:
    born = await begun(store)
    headers = b"NATS/1.0\r\nPyoco-Commit: new\r\nPyoco-Commit-No: 2\r\n\r\n"
    subject = f"{store.config.events_subject_prefix}.{born.run.run_id}"
    await store.jetstream.publish(subject, b'{"v": 9, "events": [{"type": "RunFrozen", "at": 1}]}', headers)
    found = await store.runs.load(born.run.run_id)
    assert found is not None
    assert (found.run, found.commits) == (born.run, 2)
    assert (await tagged(store, found, "on")).commits == 3


async def test_what_a_snapshot_leaves_out_is_there_when_the_whole_run_is_asked_for(
    nats_server: NatsServer,
) -> None:
    small = await Store.connect(config_on(nats_server, max_run_snapshot_bytes=4_000), name="small")
    born = await begun(small)
    at = await committed(small, born, claimed())
    for number in range(20):
        at = await committed(small, at, *task_done(f"task-{number}", START + number))
    await small.runs.snapshots.project(replace(at, revision=born.revision))
    snapshot = await small.runs.snapshots.get(born.run.run_id)
    assert snapshot is not None
    assert snapshot.task_records_truncated
    whole = await small.runs.load(born.run.run_id, whole=True)
    assert whole is not None
    log = await small.runs.events(born.run.run_id)
    assert whole.run == at.run == fold(None, [event for _, events in log for event in events])
    short = await small.runs.load(born.run.run_id)
    assert short is not None
    assert short.run.tasks["task-3"].output is None
    assert short.run.status == whole.run.status
    await small.close()


async def test_on_a_cluster_a_message_that_is_not_a_commit_makes_no_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is answered as on one broker: no run, and not an error that would never end."""
    monkeypatch.setitem(store.jetstream.replicas, store.config.events_stream, 3)
    await store.jetstream.publish(f"{store.config.events_subject_prefix}.stray", b"{}")
    assert await store.runs.load("stray", at_leader=True) is None
    assert await store.runs.load_confirmed("stray") is None
