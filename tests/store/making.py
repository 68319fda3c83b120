"""Runs to try the store with, and a broker's answers that get lost on the way."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pyoco_server.config import NatsBackendConfig
from pyoco_server.jetstream.errors import AnswerLost
from pyoco_server.jetstream.requests import Reply
from pyoco_server.lifecycle.events import (
    Event,
    RunClaimed,
    RunSubmitted,
    TagAdded,
    TaskStarted,
    TaskSucceeded,
)
from pyoco_server.store.runs.log import StoredRun, new_commit_id
from pyoco_server.store.store import Store
from tests.conftest import NatsServer, config_for, until

START = 1_700_000_000.0

# What a stream may become is set aside by the broker at once: with the default of 512 MiB for dead letters,
# a hundred environments would be all that a disk has room for.
DLQ_BYTES_MAX = 1024 * 1024


def config_on(server: NatsServer, **changes: object) -> NatsBackendConfig:
    """An environment of its own that takes little room."""
    return config_for(server, **({"dlq_max_bytes": DLQ_BYTES_MAX} | changes))


def submission(run_id: str | None = None, **changes: Any) -> RunSubmitted:
    members: dict[str, Any] = {
        "at": START,
        "run_id": run_id or str(uuid.uuid4()),
        "flow_name": "greet",
        "params": {"name": "Ada", "n": 3},
        "tag": "default",
        "tags": ["default"],
    }
    return RunSubmitted(**(members | changes))


def claimed(fence: int = 1, at: float = START + 1, instance_id: str = "w1.aa") -> RunClaimed:
    return RunClaimed(at=at, worker_id="w1", instance_id=instance_id, fence=fence)


def task_done(task: str, at: float) -> tuple[Event, ...]:
    return (
        TaskStarted(at=at, task=task, attempt=1, inputs={"x": 1}),
        TaskSucceeded(at=at + 0.5, task=task, attempt=1, started_at=at, output={"from": task}),
    )


async def stand_still(server: NatsServer) -> None:
    """Pause the broker, and wait until the signal has reached it."""
    server.pause()
    assert server._process is not None
    state = Path(f"/proc/{server._process.pid}/stat")
    await until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T")


async def begun(store: Store, **changes: Any) -> StoredRun:
    return await store.runs.create(submission(**changes), new_commit_id())


async def committed(store: Store, at: StoredRun, *events: Event) -> StoredRun:
    """A commit whose writer has not written the snapshot (yet)."""
    return await store.runs.append(at, events, new_commit_id())


async def tagged(store: Store, at: StoredRun, *tags: str) -> StoredRun:
    """One commit a tag, no snapshot."""
    for place, tag in enumerate(tags):
        at = await committed(store, at, TagAdded(at=START + 10 + place, tag=tag))
    return at


async def stored_bytes(store: Store, run_id: str) -> bytes | None:
    """The snapshot as it lies in the bucket."""
    bucket = store.config.runs_kv_bucket
    message = await store.jetstream.last_at_leader(f"KV_{bucket}", f"$KV.{bucket}.{run_id}")
    return message.data if message is not None and message.header(b"KV-Operation") is None else None


async def put_bytes(store: Store, run_id: str, data: bytes) -> None:
    """Somebody else's hand in the bucket."""
    await store.jetstream.publish(f"$KV.{store.config.runs_kv_bucket}.{run_id}", data)


async def purge_key(store: Store, run_id: str) -> None:
    bucket = store.config.runs_kv_bucket
    await store.jetstream.api(f"STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.{run_id}"})


async def purge_log(store: Store, run_id: str) -> None:
    config = store.config
    subject = f"{config.events_subject_prefix}.{run_id}"
    await store.jetstream.api(f"STREAM.PURGE.{config.events_stream}", {"filter": subject})


def heartbeat_put_aside(data: bytes | None) -> dict[str, Any]:
    assert data is not None
    snapshot = msgspec.json.decode(data, type=dict[str, Any])
    return snapshot | {"heartbeat_at": None}


class Mishap:
    """Loses the answers to requests whose subject begins in a certain way, for as often as it is told.

    With `sent=False` the request itself is lost: the broker never hears of it.
    """

    def __init__(
        self, patch: pytest.MonkeyPatch, store: Store, prefix: str, *, times: int = 1, sent: bool = True
    ) -> None:
        self._send = store.requests.send
        self._prefix = prefix
        self._sent = sent
        self.left = times
        self.subjects: list[str] = []
        patch.setattr(store.requests, "send", self)

    def __call__(self, subject: str, payload: bytes, headers: bytes = b"") -> asyncio.Future[list[Reply]]:
        if not subject.startswith(self._prefix):
            return self._send(subject, payload, headers)
        self.subjects.append(subject)
        if not self.left:
            return self._send(subject, payload, headers)
        self.left -= 1
        answer = self._send(subject, payload, headers) if self._sent else None
        return asyncio.ensure_future(_lost(subject, answer))


async def _lost(subject: str, answer: asyncio.Future[list[Reply]] | None) -> list[Reply]:
    if answer is not None:
        await answer
    raise AnswerLost(subject)


def tags_of(stored: StoredRun | None) -> Sequence[str]:
    assert stored is not None
    return stored.run.tags
