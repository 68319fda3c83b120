"""Every order of events, every order of commands, up to a length: breadth first, equal states visited once.

The sizes of snapshots decide nothing here and differ between states that are otherwise equal, so they are not
measured, unless a test asks for that.
"""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import msgspec
import pytest
from msgspec.structs import replace

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle import reduce as reduce_module
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.reduce import fold, reduce
from pyoco_server.lifecycle.run import Run, TaskRecord
from pyoco_server.lifecycle.snapshot_size import SnapshotSizes
from tests.lifecycle.support.alphabet import AT, COMMANDS, EVENTS
from tests.lifecycle.support.checkers import (
    Seen,
    decision_violations,
    job_violations,
    step_violations,
    stuck_violations,
)
from tests.lifecycle.support.client_alphabet import CLIENT_COMMANDS, CLIENT_EVENTS, LATER
from tests.lifecycle.support.graph_checkers import graph_violations


class Step(NamedTuple):
    after: Seen
    violations: list[str]


class Explored(NamedTuple):
    states: list[Seen]
    steps: int
    violations: dict[str, int]
    # Nothing new was reached by the last step: longer histories lead nowhere else.
    closed: bool = False


class Alphabet(NamedTuple):
    events: tuple[e.Event, ...]
    commands: tuple[c.Command, ...]


OF_WORKERS = Alphabet(EVENTS, COMMANDS)
OF_CLIENTS = Alphabet(CLIENT_EVENTS, CLIENT_COMMANDS)


def explore_events(length: int, alphabet: Alphabet = OF_WORKERS, *, measured: bool = False) -> Explored:
    with _without_collector(), nullcontext() if measured else _without_sizes():
        return _explore(lambda seen: _every_event(seen, alphabet.events), length)


def explore_commands(length: int, alphabet: Alphabet = OF_WORKERS) -> Explored:
    with _without_collector(), _without_sizes():
        return _explore(lambda seen: _every_command(seen, alphabet.commands), length)


def decisions_of(states: Iterable[Seen], alphabet: Alphabet = OF_WORKERS) -> Explored:
    """One decision for each command on each state; nothing is followed further."""
    reached = list(states)
    found: dict[str, int] = {}
    with _without_collector(), _without_sizes():
        for seen in reached:
            for command in alphabet.commands:
                decision = decide(seen.run, command, _at(command))
                after = seen.run if isinstance(decision, Refused) else fold(seen.run, decision)
                _count(found, decision_violations(seen, command, decision, after))
    return Explored(reached, len(reached) * len(alphabet.commands), found)


@contextmanager
def _without_collector() -> Iterator[None]:
    """All states are kept and have no cycles: looking for garbage among them took a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _NoSizes(SnapshotSizes):
    """Measures nothing: a run keeps the sizes that it has."""

    def put(self, task: str, old: TaskRecord | None, new: TaskRecord) -> None:
        pass

    def after_event(self, before: Run, after: Run, event: e.Event) -> None:
        pass

    def write_to(self, run: Run, tasks: dict[str, TaskRecord], updated_at: float) -> Run:
        is_same = run.tasks is tasks and run.updated_at == updated_at
        return run if is_same else replace(run, tasks=tasks, updated_at=updated_at)


@contextmanager
def _without_sizes() -> Iterator[None]:
    """Measuring them took a third of the time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reduce_module, "SnapshotSizes", _NoSizes)
        patch.setattr(reduce_module, "measure_submitted", lambda run, _event: run)
        yield


def _explore(steps_from: Callable[[Seen], Iterator[Step]], length: int) -> Explored:
    nowhere = Seen(None)
    known, states, frontier = {_key(nowhere)}, [nowhere], [nowhere]
    steps, found = 0, dict[str, int]()
    for _ in range(length):
        reached: list[Seen] = []
        for seen in frontier:
            for step in steps_from(seen):
                steps += 1
                _count(found, step.violations)
                if step.after is not seen and (key := _key(step.after)) not in known:
                    known.add(key)
                    reached.append(step.after)
        frontier = reached
        states += reached
    return Explored(states, steps, found, closed=not frontier)


def _every_event(seen: Seen, events: tuple[e.Event, ...]) -> Iterator[Step]:
    for event in events:
        yield _reduced(seen, event)


def _at(command: c.Command) -> float:
    """Time passes only where it is told to, and then it is late for everything."""
    return LATER if isinstance(command, c.PassTime) else AT


def _every_command(seen: Seen, commands: tuple[c.Command, ...]) -> Iterator[Step]:
    for command in commands:
        decision = decide(seen.run, command, _at(command))
        after, violations = seen, list[str]()
        if not isinstance(decision, Refused):
            for event in decision:
                after, more = _reduced(after, event)
                violations += more
            if after.run is not None:
                violations += job_violations(seen.run, decision, after.run) + stuck_violations(after.run)
                violations += graph_violations(after.run)
        violations += decision_violations(seen, command, decision, after.run)
        yield Step(after, violations)


def _reduced(seen: Seen, event: e.Event) -> Step:
    run = reduce(seen.run, event)
    if run is seen.run and not isinstance(event, e.CancelRequested):
        return Step(seen, [])  # what there is to say of this state was said when it was reached
    after = seen.then(event, _weightless(run))
    return Step(after, step_violations(seen, event, after))


def _weightless(run: Run | None) -> Run | None:
    if run is None or not (run.now_full or run.now_slim or run.now_bare or run.bytes_full):
        return run
    return replace(run, bytes_full=0, bytes_slim=0, bytes_bare=0, now_full=0, now_slim=0, now_bare=0)


def _key(seen: Seen) -> bytes:
    return msgspec.json.encode(seen)


def _count(found: dict[str, int], violations: list[str]) -> None:
    for violation in violations:
        found[violation] = found.get(violation, 0) + 1
