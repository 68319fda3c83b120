"""All that a broker has of one environment, and what its gateways show of it, read once for the audit."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import PyocoError
from pyoco_server.jetstream.confirmed_reads import is_mark
from pyoco_server.lifecycle.events import Event
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.runs.verify import verify_all
from pyoco_server.store import resources
from pyoco_server.store.fleet.leases import Lease
from pyoco_server.store.runs.codec import Commit, commits_of
from pyoco_server.store.store import Store
from tests.chaos.evidence import Created, Evidence
from tests.chaos.flows import Mark, marks

PAGE = 200
READ_TIMEOUT_SEC = 30.0
NOTE = "leftover."  # stands beside the leases, before the id of a run


@dataclass
class Kept:
    """A large result as it is in the object store; `problem` where it cannot be read."""

    size: int = 0
    sha256: str = ""
    problem: str = ""
    text_sha256: str = ""  # of the text in it, if it is one


@dataclass
class Inventory:
    config: NatsBackendConfig
    commits: dict[str, list[Commit]] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)
    problems: list[tuple[str, str]] = field(default_factory=list)  # of logs and snapshots, by `verify`
    subjects: dict[str, list[str]] = field(default_factory=dict)
    objects: dict[str, Kept] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    silent_sec: dict[str, float] = field(default_factory=dict)
    consumers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    streams: list[str] = field(default_factory=list)
    lists: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    replays: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    noted: set[str] = field(default_factory=set)  # runs that housekeeping is to clear up after

    def events(self, run_id: str) -> list[Event]:
        return [event for commit in self.commits.get(run_id, ()) for event in commit.events]


async def inventory(
    store: Store, evidence: Evidence, gateways: Sequence[str] = (), marks_file: Path | None = None
) -> Inventory:
    found = Inventory(store.config)
    await _read_log(store, found)
    found.problems = [(i, problem) async for i, seen in verify_all(store) for problem in seen.problems]
    await _read_streams(store, found)
    await _read_objects(store, found)
    await _read_leases(store, found)
    found.marks = marks(marks_file) if marks_file is not None else []
    async with httpx.AsyncClient(timeout=READ_TIMEOUT_SEC) as client:
        for url in gateways:
            found.lists[url] = await listed(client, url)
        if gateways:
            found.replays = {
                key: await _replayed(client, gateways[0], one) for key, one in evidence.created.items()
            }
    return found


async def read_runs(store: Store) -> dict[str, Run]:
    """All runs as their logs fold, without those of which only the mark of their erasure is left."""
    found = Inventory(store.config)
    await _read_log(store, found)
    return found.runs


async def _read_log(store: Store, found: Inventory) -> None:
    config = store.config
    by_subject = defaultdict(list)
    for message in await store.jetstream.after(config.events_stream, f"{config.events_subject_prefix}.*", 0):
        if is_mark(message.headers):
            continue
        by_subject[message.subject.removeprefix(f"{config.events_subject_prefix}.")].append(message)
    for run_id, messages in by_subject.items():
        found.commits[run_id] = commits_of(messages)
        run = fold(None, found.events(run_id))
        if run is not None and not run.gone:
            found.runs[run_id] = run


async def _read_streams(store: Store, found: Inventory) -> None:
    for wanted in resources.streams(store.config):
        name = wanted["name"]
        found.subjects[name] = [subject async for subject in _subjects(store, name)]
        found.consumers[name] = await consumers_of(store, name)
    names = await _whole_list(store, "STREAM.NAMES", "streams")
    found.streams = [name for name in names if _is_ours(store.config, name)]


async def consumers_of(store: Store, stream: str) -> list[dict[str, Any]]:
    return await _whole_list(store, f"CONSUMER.LIST.{stream}", "consumers")


async def _whole_list(store: Store, api: str, member: str) -> list[Any]:
    """All pages of it."""
    found: list[Any] = []
    while True:
        answer = await store.jetstream.api(api, {"offset": len(found)})
        page = answer[member] or []
        found += page
        if not page or len(found) >= answer["total"]:
            return found


def _is_ours(config: NatsBackendConfig, stream: str) -> bool:
    name = config.runs_kv_bucket.removesuffix("_runs")
    return name.lower() in stream.lower()


async def _subjects(store: Store, stream: str) -> Any:
    offset, total = 0, 1
    while offset < total:
        asked = {"subjects_filter": ">", "offset": offset}
        info = await store.jetstream.api(f"STREAM.INFO.{stream}", asked)
        subjects = info["state"].get("subjects") or {}
        for subject in subjects:
            yield subject
        offset, total = offset + len(subjects), int(info.get("total", 0)) if subjects else 0


async def _read_objects(store: Store, found: Inventory) -> None:
    for info in await store.results.objects.list():
        try:
            data = await store.results.objects.get(info.name)
        except PyocoError as error:
            found.objects[info.name] = Kept(problem=error.message)
            continue
        value = msgspec.json.decode(data)
        text = hashlib.sha256(value.encode()).hexdigest() if isinstance(value, str) else ""
        found.objects[info.name] = Kept(len(data), hashlib.sha256(data).hexdigest(), text_sha256=text)


async def _read_leases(store: Store, found: Inventory) -> None:
    prefix = f"$KV.{store.config.leases_kv_bucket}."
    for subject in found.subjects[f"KV_{store.config.leases_kv_bucket}"]:
        key = subject.removeprefix(prefix)
        if key.startswith(NOTE):
            found.noted.add(key.removeprefix(NOTE))
            continue
        lease, _ = await store.leases.read(key)
        if lease is not None:
            found.leases[key] = lease
            found.silent_sec[key] = await store.leases.silent_sec(key) or 0.0


async def listed(client: httpx.AsyncClient, url: str) -> list[dict[str, Any]]:
    """Every run that a gateway lists, page by page."""
    found: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = await client.get(f"{url}/runs", params={"limit": PAGE, "cursor": cursor})
        page = answer.raise_for_status().json()
        found += page["items"]
        cursor = page["next_cursor"]
    return found


async def _replayed(client: httpx.AsyncClient, url: str, one: Created) -> tuple[int, bytes]:
    wanted = one.wanted
    answer = await client.request(
        wanted.method, url + wanted.path, json=wanted.body, headers={wanted.key_header: wanted.key}
    )
    return answer.status_code, answer.content


def instants(commits: Iterable[Commit], wanted: type[Event]) -> list[tuple[float, Any]]:
    """When the broker stored each event of a kind, and the event."""
    return [(one.at, event) for one in commits for event in one.events if isinstance(event, wanted)]
