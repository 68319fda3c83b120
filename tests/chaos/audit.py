"""Do the promises hold in everything that is stored? Each check is a function that yields violations.

The scenario is over: faults have healed, requests were answered. `settled` waits, bounded, until nothing is
under way any more; what is under way after that is a violation too.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pyoco_server.errors import Unavailable
from pyoco_server.http_api.faces.runs import wire
from pyoco_server.lifecycle.events import (
    CancelRequested,
    RunClaimed,
    RunErased,
    RunLost,
    RunSubmitted,
    TaskProgressed,
    TaskResumed,
    TaskSucceeded,
)
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept, RunStatus
from pyoco_server.operations.runs.verify import verify_all
from pyoco_server.store import resources
from pyoco_server.store.store import Store
from tests.chaos.evidence import Evidence
from tests.chaos.flows import TASKS, Mark
from tests.chaos.inventory import Inventory, consumers_of, instants, inventory, read_runs

SETTLED_WITHIN_SEC = 120.0
SETTLED_LOOK_SEC = 0.5
# A consumer that has no listener is removed by the broker after 30 s. A cluster may have to try again, and
# lets up to five minutes pass before it does.
CONSUMERS_WITHIN_SEC = 45.0
CONSUMERS_WITHIN_SEC_OF_CLUSTER = 400.0
HEALED_WITHIN_SEC = 20.0
# Housekeeping looks a minute after an erasure whether something was left.
NOTES_WITHIN_SEC = 90.0
# Between the permission to begin a task and its first line, on a machine with more processes than cores.
START_SLACK_SEC = 0.5
SILENT_SEC_MAX = 10.0


class Violation(NamedTuple):
    check: str
    run_id: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: run {self.run_id or '-'}: {self.what}"


Found = Iterator[tuple[str, str]]
Check = Callable[[Inventory, Evidence], Found]


def every_request_was_answered(_: Inventory, told: Evidence) -> Found:
    """After healing every request gets an answer, and none is refused that is right."""
    yield from told.refused
    yield from told.unanswered


def one_run_per_key(found: Inventory, told: Evidence) -> Found:
    """The key that was sent stands in the parameters: a second run of it cannot hide."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for run_id in found.commits:
        submitted = next((e for e in found.events(run_id) if isinstance(e, RunSubmitted)), None)
        key = submitted.params.get("key") or submitted.params.get("request_id") if submitted else None
        if key:
            by_key[str(key)].append(run_id)
    for key, one in told.created.items():
        name = str(one.params.get("key") or one.params["request_id"])
        is_erased = one.run_id in told.erased
        expected = [] if is_erased else [one.run_id]
        others = [run_id for run_id in by_key.pop(name, []) if run_id != one.run_id]
        if one.run_id not in found.commits:
            yield one.run_id, f"the request {key!r} was answered, and its run is not in the log"
        elif others:
            yield one.run_id, f"the request {key!r} has made {expected + others}"
    for key, run_ids in by_key.items():
        for run_id in run_ids:
            yield run_id, f"its request {key!r} was never answered"


def answers_repeat(found: Inventory, told: Evidence) -> Found:
    """Sent again with its key, a request is given the answer of the first time; the run is what it says."""
    for key, (status, body) in found.replays.items():
        one = told.created[key]
        if status not in (200, 201, 202):
            yield one.run_id, f"the request {key!r} sent again is answered {status} {body[:200]!r}"
        elif one.answers and body not in one.answers:
            yield one.run_id, f"the request {key!r} sent again is answered {body!r}, before {one.answers}"
        elif one.run_id not in body.decode():
            yield one.run_id, f"the request {key!r} sent again names another run: {body!r}"
        run = found.runs.get(one.run_id)
        if run is not None and (run.flow_name, _subset(run.params, one.params)) != (one.flow, one.params):
            yield one.run_id, f"it is of {run.flow_name} {run.params}, asked for {one.flow} {one.params}"


def accepted_cancels_won(found: Inventory, told: Evidence) -> Found:
    asked = {run_id for run_id in found.runs if _has(found, run_id, CancelRequested)}
    for run_id in asked | told.cancelled:
        run = found.runs.get(run_id)
        if run is None or run.status is not RunStatus.CANCELLED:
            yield run_id, f"its cancel was accepted, and it is {run.status if run else 'not there'}"
        elif run_id not in asked:
            yield run_id, "its cancel was accepted, and is not in the log"


def runs_ended_as_asked(found: Inventory, told: Evidence) -> Found:
    """Nothing fails because of a fault; what completes has done each of its tasks."""
    for one in told.created.values():
        run = found.runs.get(one.run_id)
        if run is None or run.status is RunStatus.CANCELLED or not run.is_terminal:
            continue
        if run.status is not RunStatus.COMPLETED:
            yield one.run_id, f"it is {run.status}: {run.reason} {run.error}"
        elif one.flow in TASKS:
            done = {e.task for e in found.events(one.run_id) if isinstance(e, TaskSucceeded)}
            if done != set(TASKS[one.flow]):
                yield one.run_id, f"it is COMPLETED with {sorted(done)}"


def one_success_per_task(found: Inventory, _: Evidence) -> Found:
    for run_id in found.runs:
        done = Counter(e.task for e in found.events(run_id) if isinstance(e, TaskSucceeded))
        for task, count in done.items():
            if count > 1:
                yield run_id, f"task {task} succeeded {count} times"


def commands_took_effect_once(found: Inventory, told: Evidence) -> Found:
    for run_id in {one.run_id for one in told.reported}:
        events = found.events(run_id)
        in_log = Counter((e.task, e.message) for e in events if isinstance(e, TaskProgressed))
        expected = Counter((one.task, one.message) for one in told.reported if one.run_id == run_id)
        if any(in_log[one] != count for one, count in expected.items()) or max(in_log.values()) > 1:
            yield run_id, f"reports in its log: {dict(in_log)}, answered: {dict(expected)}"
    for run_id, task in told.succeeded:
        if not any(isinstance(e, TaskSucceeded) and e.task == task for e in found.events(run_id)):
            yield run_id, f"the success of {task} was answered, and is not in the log"
    for run_id, payload in told.approved.items():
        resumed = [e.payload for e in found.events(run_id) if isinstance(e, TaskResumed)]
        if resumed != [payload]:
            yield run_id, f"the answer {payload} was accepted, its log has {resumed}"


def no_task_begun_after_a_takeover(found: Inventory, _: Evidence) -> Found:
    """A mark names a process of a worker; its claim must not have been lost when the task began."""
    instance_of = {lease.pid: key for key, lease in found.leases.items() if lease.pid and lease.worker_id}
    for mark in found.marks:
        instance = instance_of.get(mark.pid)
        if mark.run_id not in found.runs:
            continue  # erased: no claim is left to compare it with
        if instance is None:
            yield mark.run_id, f"task {mark.task} began in process {mark.pid}, which has no lease"
        elif not _had_claim(found, mark, instance):
            yield (
                mark.run_id,
                f"task {mark.task} began at {mark.at:.3f} in {instance}: {_claims(found, mark)}",
            )


def objects_are_what_was_recorded(found: Inventory, _: Evidence) -> Found:
    for run_id, run in found.runs.items():
        for name, record in run.tasks.items():
            if record.kept is OutputKept.REFERENCED:
                for what in _differences(found, run, record.output):
                    yield run_id, f"the result of {name} {what}"


def lists_equal_the_log(found: Inventory, _: Evidence) -> Found:
    expected = {run_id: msgspec.to_builtins(wire.summary(run)) for run_id, run in found.runs.items()}
    for url, items in found.lists.items():
        shown = {item["run_id"]: item for item in items}
        if len(shown) != len(items):
            yield "", f"{url} lists runs twice"
        for run_id in expected.keys() | shown.keys():
            if expected.get(run_id) != shown.get(run_id):
                yield run_id, f"{url} lists {shown.get(run_id)}, the log has {expected.get(run_id)}"


def logs_and_snapshots_agree(found: Inventory, _: Evidence) -> Found:
    yield from found.problems


def nothing_is_left_of_erased_runs(found: Inventory, told: Evidence) -> Found:
    """One mark in the log is allowed, which goes by age. A run that is noted will be cleared up after."""
    erased = told.erased | {run_id for run_id in found.commits if _has(found, run_id, RunErased)}
    for run_id in erased:
        if run_id in found.runs:
            yield run_id, "it was erased, and its log is there"
    events = found.config.events_stream
    for stream, subjects in found.subjects.items():
        for subject in subjects if stream != events else ():
            due = erased - found.noted
            left = next((run_id for run_id in due if run_id in _readable(subject)), None)
            if left is not None:
                yield left, f"it was erased, and {stream} has {_readable(subject)}"


def nothing_is_under_way(found: Inventory, _: Evidence) -> Found:
    """After the time to settle every run is over, and no job is left."""
    for run_id, run in found.runs.items():
        if not run.is_terminal:
            yield run_id, f"it is {run.status}, {_owner(found, run)}"
    for subject in found.subjects[found.config.work_stream]:
        yield "", f"there are jobs left on {subject}"


def nothing_runs_without_an_owner(found: Inventory, _: Evidence) -> Found:
    for run_id, run in found.runs.items():
        if run.claim is None or run.is_terminal:
            continue
        lease = found.leases.get(run.claim.instance_id)
        if lease is None or found.silent_sec[run.claim.instance_id] > SILENT_SEC_MAX:
            yield run_id, f"it is {run.status}, and {run.claim.instance_id} has no live lease"
        elif lease.holds is not None and run_id not in lease.holds:
            yield run_id, f"it is {run.status}, and {run.claim.instance_id} does not list it"


def no_stream_or_consumer_is_left_behind(found: Inventory, _: Evidence) -> Found:
    expected = {wanted["name"] for wanted in resources.streams(found.config)}
    for name in set(found.streams) - expected:
        yield "", f"stream {name} is none of ours"
    for stream, consumers in found.consumers.items():
        for consumer in consumers:
            if not is_used(consumer):
                yield "", f"{stream} has consumer {consumer['name']}, which is not listened to"


CHECKS: tuple[Check, ...] = (
    every_request_was_answered,
    one_run_per_key,
    answers_repeat,
    accepted_cancels_won,
    runs_ended_as_asked,
    one_success_per_task,
    commands_took_effect_once,
    no_task_begun_after_a_takeover,
    objects_are_what_was_recorded,
    lists_equal_the_log,
    logs_and_snapshots_agree,
    nothing_is_left_of_erased_runs,
    nothing_is_under_way,
    nothing_runs_without_an_owner,
    no_stream_or_consumer_is_left_behind,
)


def violations(found: Inventory, told: Evidence, checks: Sequence[Check] = CHECKS) -> list[Violation]:
    return [
        Violation(check.__name__, run_id, what) for check in checks for run_id, what in check(found, told)
    ]


async def audit(
    store: Store,
    told: Evidence,
    gateways: Sequence[str],
    marks_file: Path,
    *,
    within_sec: float = SETTLED_WITHIN_SEC,
    checks: Sequence[Check] = CHECKS,
) -> list[Violation]:
    """Waits until everything is over, and then looks at all of it. Without every check it waits for less."""
    await settled(store, within_sec)
    is_cluster = store.config.nats_replicas > 1
    for_sec = CONSUMERS_WITHIN_SEC_OF_CLUSTER if is_cluster else CONSUMERS_WITHIN_SEC
    if no_stream_or_consumer_is_left_behind in checks:
        await _soon(lambda: _has_no_notes(store), NOTES_WITHIN_SEC)
        await _soon(lambda: _has_no_unused_consumer(store), for_sec)
    await _soon(lambda: _is_healed(store), HEALED_WITHIN_SEC)
    found = await inventory(store, told, gateways, marks_file)
    if no_stream_or_consumer_is_left_behind in checks:
        await _look_again_at_unused_consumers(store, found, for_sec)
    return violations(found, told, checks)


async def settled(store: Store, within_sec: float) -> bool:
    """Whether nothing was under way any more before the time was over."""
    return await _soon(lambda: _is_quiet(store), within_sec)


async def _soon(is_so: Callable[[], Any], within_sec: float) -> bool:
    deadline = asyncio.get_running_loop().time() + within_sec
    while asyncio.get_running_loop().time() < deadline:
        with contextlib.suppress(Unavailable):
            if await is_so():
                return True
        await asyncio.sleep(SETTLED_LOOK_SEC)
    return False


async def _is_quiet(store: Store) -> bool:
    info = await store.jetstream.api(f"STREAM.INFO.{store.config.work_stream}")
    is_empty = info["state"]["messages"] == 0
    return is_empty and all(run.is_terminal for run in (await read_runs(store)).values())


async def _has_no_notes(store: Store) -> bool:
    return not await store.leftovers.oldest(1)


async def _is_healed(store: Store) -> bool:
    """A snapshot that is behind is healed by a reader: each run whose snapshot is not right is read."""
    is_healed = True
    async for run_id, seen in verify_all(store):
        if not seen.ok:
            is_healed = False
            await store.runs.load(run_id, at_leader=True)
    return is_healed


async def _has_no_unused_consumer(store: Store) -> bool:
    for wanted in resources.streams(store.config):
        if not all(map(is_used, await consumers_of(store, wanted["name"]))):
            return False
    return True


async def _look_again_at_unused_consumers(store: Store, found: Inventory, within_sec: float) -> None:
    """A gateway that reconnects leaves its consumers, and the broker removes them after a while.

    A gateway may do so while the inventory is taken. Only a consumer that stays unused was left behind.
    """

    async def still_unused() -> set[tuple[str, str]]:
        return {
            (stream, consumer["name"])
            for stream in {stream for stream, _ in unused}
            for consumer in await consumers_of(store, stream)
            if (stream, consumer["name"]) in unused and not is_used(consumer)
        }

    async def none_is_left() -> bool:
        return not await still_unused()

    unused = {
        (stream, consumer["name"])
        for stream, consumers in found.consumers.items()
        for consumer in consumers
        if not is_used(consumer)
    }
    if not unused or await _soon(none_is_left, within_sec):
        found.consumers.clear()
        return
    left = await still_unused()
    found.consumers = {
        stream: [consumer for consumer in consumers if (stream, consumer["name"]) in left]
        for stream, consumers in found.consumers.items()
    }


def is_used(consumer: dict[str, Any]) -> bool:
    return bool(consumer["config"].get("durable_name")) or bool(consumer.get("push_bound"))


def _has(found: Inventory, run_id: str, kind: type[Any]) -> bool:
    return any(isinstance(event, kind) for event in found.events(run_id))


def _subset(params: dict[str, Any], of: dict[str, Any]) -> dict[str, Any]:
    return {name: params.get(name) for name in of}


def _had_claim(found: Inventory, mark: Mark, instance: str) -> bool:
    commits = found.commits[mark.run_id]
    lost_at = {event.fence: at for at, event in instants(commits, RunLost)}
    return any(
        claim.instance_id == instance
        and at <= mark.at + START_SLACK_SEC
        and mark.at <= lost_at.get(claim.fence, mark.at) + START_SLACK_SEC
        for at, claim in instants(commits, RunClaimed)
    )


def _claims(found: Inventory, mark: Mark) -> str:
    commits = found.commits[mark.run_id]
    claims = [f"claim {e.fence} of {e.instance_id} at {at:.3f}" for at, e in instants(commits, RunClaimed)]
    losses = [f"loss of {e.fence} ({e.cause}) at {at:.3f}" for at, e in instants(commits, RunLost)]
    return ", ".join(claims + losses)


def _differences(found: Inventory, run: Run, reference: Any) -> Iterator[str]:
    name = str(reference.get("object"))
    kept = found.objects.get(name)
    if kept is None:
        yield f"is not there ({name})"
        return
    if kept.problem:
        yield f"cannot be read: {kept.problem}"
    elif kept.size != reference.get("bytes"):
        yield f"has {kept.size} bytes, the log says {reference.get('bytes')}"
    elif reference.get("sha256") != kept.sha256:
        yield f"has SHA-256 {kept.sha256}, the log says {reference.get('sha256')}"
    told = run.tasks["check"].output if "check" in run.tasks else None
    if told is not None and told != kept.text_sha256:
        yield "is not the one that the next task was given"


def _owner(found: Inventory, run: Run) -> str:
    if run.claim is None:
        return (
            "parked" if run.parked else f"without a claim, job {run.job_no} owed since {run.job_owed_since}"
        )
    silent = found.silent_sec.get(run.claim.instance_id)
    return f"claimed by {run.claim.instance_id}, silent for {silent} s"


def _readable(subject: str) -> str:
    """Object stores write names in base64."""
    before, _, last = subject.rpartition(".")
    if not before.startswith("$O."):
        return subject
    with contextlib.suppress(ValueError):
        return f"{before}.{base64.urlsafe_b64decode(last).decode()}"
    return subject
