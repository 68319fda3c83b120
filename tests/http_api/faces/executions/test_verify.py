"""Somebody wrote into the log behind our back: whoever verifies is told, and where."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.headers import header_block
from pyoco_server.lifecycle.events import TaskProgressed
from pyoco_server.store.runs.codec import encode_commit
from pyoco_server.store.store import Store
from tests.http_api.faces.executions.driving import Driver
from tests.http_api.serving import serving


@pytest.fixture
def drive(client: httpx.AsyncClient) -> Driver:
    return Driver(client)


async def _finished(drive: Driver) -> str:
    execution_id = await drive.started("a", "b")
    await drive.do(execution_id, "a")
    await drive.take(execution_id, "b")
    return execution_id


async def test_what_was_written_by_us_holds(drive: Driver) -> None:
    execution_id = await _finished(drive)
    events = await drive.events(execution_id)
    assert await drive.get(execution_id, "/verify") == {
        "ok": True,
        "events": len(events),
        "head": events[-1]["hash"],
        "problems": [],
    }


async def _forge(store: Store, execution_id: str, **headers: Any) -> None:
    """A commit like ours, but for what it does not know: the chain before it."""
    forged = TaskProgressed(at=1.0, task="b", progress=99.0, message="not so")
    expected = {"Nats_Expected_Last_Subject_Sequence": await _last(store, execution_id)} | headers
    subject = f"{store.config.events_subject_prefix}.{execution_id}"
    await store.jetstream.publish(subject, encode_commit([forged]), header_block(**expected))


async def _last(store: Store, execution_id: str) -> int:
    return (await store.runs.history(execution_id))[-1].log_seq


async def test_a_forged_commit_is_found(drive: Driver, store: Store) -> None:
    execution_id = await _finished(drive)
    before = await drive.events(execution_id)
    number = (await store.runs.history(execution_id))[-1].number + 1
    await _forge(store, execution_id, Pyoco_Commit="forged", Pyoco_Commit_No=number, Pyoco_Chain="0" * 64)
    found = await drive.get(execution_id, "/verify")
    assert found["ok"] is False
    assert found["problems"]
    # What it says is shown, for the log has it; what was listed before is as it was.
    after = await drive.events(execution_id)
    assert after[: len(before)] == before
    assert after[-1]["payload"]["message"] == "not so"


async def test_a_commit_with_a_number_left_out_is_found(drive: Driver, store: Store) -> None:
    execution_id = await _finished(drive)
    number = (await store.runs.history(execution_id))[-1].number + 2
    await _forge(store, execution_id, Pyoco_Commit="forged", Pyoco_Commit_No=number)
    assert (await drive.get(execution_id, "/verify"))["ok"] is False


async def test_a_rewritten_history_gives_other_hashes(
    config: NatsBackendConfig, drive: Driver, store: Store
) -> None:
    """Whoever has kept a head can tell, even if the whole log was written anew with a chain that fits."""
    execution_id = await _finished(drive)
    kept = (await drive.get(execution_id, "/verify"))["head"]
    await _forge(store, execution_id, Pyoco_Commit="forged")
    async with serving(config) as other:
        assert (await Driver(other).get(execution_id, "/verify"))["head"] != kept
