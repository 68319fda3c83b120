"""Every order of events, every order of commands, up to a length: breadth first, equal states visited once.

The sums of bytes grow with every event and decide nothing here, so they are set to zero.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.reduce import fold, reduce
from pyoco_server.lifecycle.run import Run
from tests.lifecycle.alphabet import AT, COMMANDS, EVENTS
from tests.lifecycle.checkers import (
    Seen,
    decision_violations,
    job_violations,
    step_violations,
    stuck_violations,
)


class Step(NamedTuple):
    after: Seen
    violations: list[str]


class Explored(NamedTuple):
    states: list[Seen]
    steps: int
    violations: dict[str, int]


def explore_events(length: int) -> Explored:
    return _explore(_every_event, length)


def explore_commands(length: int) -> Explored:
    return _explore(_every_command, length)


def decisions_of(states: Iterable[Seen]) -> Explored:
    """One decision for each command on each state; nothing is followed further."""
    reached = list(states)
    found: dict[str, int] = {}
    for seen in reached:
        for command in COMMANDS:
            decision = decide(seen.run, command, AT)
            after = seen.run if isinstance(decision, Refused) else fold(seen.run, decision)
            _count(found, decision_violations(seen, command, decision, after))
    return Explored(reached, len(reached) * len(COMMANDS), found)


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
    return Explored(states, steps, found)


def _every_event(seen: Seen) -> Iterator[Step]:
    for event in EVENTS:
        yield _reduced(seen, event)


def _every_command(seen: Seen) -> Iterator[Step]:
    for command in COMMANDS:
        decision = decide(seen.run, command, AT)
        after, violations = seen, list[str]()
        if not isinstance(decision, Refused):
            for event in decision:
                after, more = _reduced(after, event)
                violations += more
            if after.run is not None:
                violations += job_violations(seen.run, decision, after.run) + stuck_violations(after.run)
        violations += decision_violations(seen, command, decision, after.run)
        yield Step(after, violations)


def _reduced(seen: Seen, event: e.Event) -> Step:
    run = reduce(seen.run, event)
    if run is seen.run and not isinstance(event, e.CancelRequested):
        return Step(seen, [])  # what there is to say of this state was said when it was reached
    after = seen.then(event, _weightless(run))
    return Step(after, step_violations(seen, event, after))


def _weightless(run: Run | None) -> Run | None:
    if run is None or run.bytes_full == 0:
        return run
    return replace(run, bytes_full=0, bytes_slim=0, bytes_bare=0)


def _key(seen: Seen) -> bytes:
    return msgspec.json.encode(seen)


def _count(found: dict[str, int], violations: list[str]) -> None:
    for violation in violations:
        found[violation] = found.get(violation, 0) + 1
