"""Laws of every history that decide can write, tried on random ones."""

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Refused, decide, decide_all
from pyoco_server.lifecycle.reduce import fold, reduce
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept
from tests.lifecycle.support.alphabet import AT, EVENTS, submitted
from tests.lifecycle.support.checkers import Seen, job_violations, step_violations, stuck_violations
from tests.lifecycle.support.random_runs import QUICK, THOROUGH, Intent, command_for, log_of, play, wishes


@THOROUGH
@given(wishes)
def test_no_step_of_a_history_breaks_an_invariant(asked: list[list[Intent]]) -> None:
    seen = Seen(None)
    for event in log_of(play(asked)):
        after = seen.then(event, reduce(seen.run, event))
        assert step_violations(seen, event, after) == []
        seen = after


@THOROUGH
@given(wishes)
def test_every_commit_says_truly_whether_a_job_is_owed(asked: list[list[Intent]]) -> None:
    for commit in play([[one] for together in asked for one in together]):
        assert job_violations(commit.before, commit.events, commit.after) == []
        assert stuck_violations(commit.after) == []


@QUICK
@given(st.lists(st.sampled_from(EVENTS), max_size=60))
def test_no_step_of_any_log_whatever_breaks_an_invariant(log: list[e.Event]) -> None:
    seen = Seen(None)
    for event in log:
        after = seen.then(event, reduce(seen.run, event))
        assert step_violations(seen, event, after) == []
        seen = after


@QUICK
@given(wishes)
def test_folding_a_log_is_reducing_it_step_by_step(asked: list[list[Intent]]) -> None:
    log = log_of(play(asked))
    run: Run | None = None
    for event in log:
        run = reduce(run, event)
    assert fold(None, log) == run


@QUICK
@given(st.lists(st.sampled_from(EVENTS), max_size=40), st.data())
def test_folding_in_any_batches_gives_the_same(log: list[e.Event], data: st.DataObject) -> None:
    run: Run | None = None
    rest = log
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        run, rest = fold(run, rest[:size]), rest[size:]
    assert run == fold(None, log)


# Instants far from today too: their text may be as short as what an output makes shorter.
_STARTS = st.sampled_from((AT, AT + 0.123456, 0.0, 1.0, 99.0, 100.0))
_OUTPUTS: st.SearchStrategy[Any] = st.sampled_from((None, 1, "", [], "long" * 20, {"ü": [None]}))


@st.composite
def _attempts(draw: st.DrawFn) -> list[e.Event]:
    """Starts and successes as a worker reports them, with others between them now and then."""
    found: list[e.Event] = []
    for _ in range(draw(st.integers(1, 6))):
        task, attempt = draw(st.sampled_from(("a", "b"))), draw(st.integers(1, 3))
        at = draw(_STARTS)
        inputs: Any = draw(st.sampled_from((None, {}, {"x": 1})))
        types: Any = draw(st.sampled_from((None, {"0": "tuple"})))
        started = e.TaskStarted(
            at=at,
            task=task,
            attempt=attempt,
            inputs=inputs,
            worker_id=draw(st.sampled_from((None, "w"))),
            deadline_at=draw(st.sampled_from((None, None, None, at + 1))),
        )
        succeeded = e.TaskSucceeded(
            at=at + draw(st.sampled_from((0.0, 0.25))),
            task=draw(st.sampled_from((task, task, task, "b"))),
            attempt=attempt + draw(st.sampled_from((0, 0, 0, 1))),
            started_at=at + draw(st.sampled_from((0.0, 0.0, 0.5))),
            output=draw(_OUTPUTS),
            kept=draw(st.sampled_from(tuple(OutputKept))),
            types=types,
        )
        between = draw(st.sampled_from((None, None, None, *EVENTS)))
        found += [started, *([] if between is None else [between]), succeeded]
    return found


# A success that saves as many bytes as one can.
_SMALLEST = [
    e.TaskStarted(at=0.0, task="a", attempt=1),
    e.TaskSucceeded(at=0.0, task="a", attempt=1, started_at=0.0, output=1),
]


@THOROUGH
@given(_attempts(), _attempts())
@example([], _SMALLEST)
def test_starts_and_successes_together_are_one_after_the_other(
    earlier: list[e.Event], log: list[e.Event]
) -> None:
    claimed = e.RunClaimed(at=AT, worker_id="w", instance_id="i", fence=1)
    before = run = fold(None, [submitted(), claimed, *earlier])
    for event in log:
        run = reduce(run, event)
    assert fold(before, log) == run


@QUICK
@given(wishes)
def test_folding_leaves_the_state_it_began_with_as_it_was(asked: list[list[Intent]]) -> None:
    for commit in play(asked):
        if commit.before is not None:
            kept = msgspec.json.encode(commit.before)
            fold(commit.before, commit.events)
            assert msgspec.json.encode(commit.before) == kept


@QUICK
@given(wishes)
def test_deciding_together_is_deciding_one_after_the_other(asked: list[list[Intent]]) -> None:
    run: Run | None = play([])[0].after
    for together in asked:
        assert run is not None
        commands = [command_for(run, intent, AT) for intent in together]
        decision = decide_all(run, commands, AT)
        one_by_one, stepped = run, list[e.Event]()
        for command in commands:
            single = decide(one_by_one, command, AT)
            if isinstance(single, Refused):
                assert decision == single
                break
            one_by_one = fold(one_by_one, single) or one_by_one
            stepped += single
        else:
            assert decision == tuple(stepped)
            run = one_by_one
