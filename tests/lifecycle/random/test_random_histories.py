"""Laws of every history that decide can write, tried on random ones."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Refused, decide, decide_all
from pyoco_server.lifecycle.reduce import fold, reduce
from pyoco_server.lifecycle.run import Run
from tests.lifecycle.support.alphabet import AT, EVENTS
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
