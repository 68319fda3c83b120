"""Waits in loops and switches: each iteration waits under its own name, and the run goes on there."""

from typing import Any

from pyoco.core.models import Flow, RunContext
from pyoco.dsl.syntax import TaskWrapper, switch, task

from pyoco_server.engine import Engine, OutcomeStatus, WaitAnswer
from pyoco_server.flows import waits
from pyoco_server.flows.waits import approval
from tests.engine.building import Background, Diary, await_signal
from tests.engine.test_waits import Waiting, lives


def named(name: str, work: Any) -> TaskWrapper:
    wrapped: TaskWrapper = task(work)
    wrapped.task.name = name
    return wrapped


def test_every_iteration_waits_under_its_own_name_and_the_run_goes_on_in_the_middle_of_the_loop() -> None:
    ran: list[str] = []

    def flow() -> Any:
        build = named("build", lambda ctx: ran.append(f"build {ctx.loop.index}"))
        end = named("end", lambda release: release)
        return Flow() >> (build >> approval("release"))[2] >> end

    outcomes = lives(flow, {"release[0]": "first", "release[1]": "second"})
    assert [outcome.waiting for outcome in outcomes] == [("release[0]",), ("release[1]",), ()]
    assert (outcomes[-1].status, outcomes[-1].results["end"]) == (OutcomeStatus.COMPLETED, "second")
    assert ran == ["build 0", "build 1"]


def test_a_loop_can_ask_until_the_answer_is_good() -> None:
    def flow() -> Any:
        return Flow() >> approval("review", prompt={"x": 1}) % "$ctx.results.review == 'good'"

    outcomes = lives(flow, {"review[0]": "bad", "review[1]": "worse", "review[2]": "good"})
    assert [outcome.status for outcome in outcomes] == [OutcomeStatus.PARKED] * 3 + [OutcomeStatus.COMPLETED]
    assert outcomes[-1].results == {"review": "good"}


def test_a_switch_goes_by_the_answer() -> None:
    def flow() -> Any:
        cases = ["yes" >> named("deploy", lambda: "deployed"), "*" >> named("drop", lambda: "dropped")]
        return Flow() >> approval("release") >> switch("$ctx.results.release")[cases]

    assert lives(flow, {"release": "yes"})[-1].results == {"release": "yes", "deploy": "deployed"}
    assert lives(flow, {"release": "no"})[-1].results == {"release": "no", "drop": "dropped"}


def test_a_wait_in_a_branch_waits_only_where_the_branch_is_taken() -> None:
    def flow() -> Any:
        cases = ["prod" >> approval("release"), "*" >> named("skip", lambda: "skipped")]
        return Flow() >> switch("$ctx.params.where")[cases] >> named("deploy", lambda: "deployed")

    assert len(lives(flow, {}, {"where": "test"})) == 1
    assert lives(flow, {"release": 1}, {"where": "prod"})[-1].results == {"release": 1, "deploy": "deployed"}


def test_two_sleeps_of_one_length_are_two_places_of_a_program() -> None:
    def flow() -> Any:
        return Flow() >> waits.sleep(5) >> named("work", lambda: 1)[1] >> waits.sleep(5)

    outcomes = lives(flow, {"sleep_5": None, "sleep_5#2": None})
    assert [outcome.waiting for outcome in outcomes] == [("sleep_5",), ("sleep_5#2",), ()]


def test_a_recorded_rejection_in_a_loop_fails_the_whole_and_the_run() -> None:
    diary = Diary()
    flow = Flow() >> approval("release")[2] >> named("end", lambda: 1)
    outcome = Engine(listener=diary).run(
        flow, recorded={"release[0]": "ok"}, failures={"release[1]": "too risky"}
    )
    assert (outcome.status, outcome.error, outcome.failed_task) == (
        OutcomeStatus.FAILED,
        "too risky",
        "release[1]",
    )
    assert diary.of("failed") == [("release", 1, "too risky", False)]
    assert diary.of("cancelled") == [("end",)]


def test_an_answer_that_overtakes_the_walk_is_used_where_it_belongs() -> None:
    engine, context = Engine(), RunContext()
    engine.answer(context.run_id, "release[1]", WaitAnswer("second"))
    engine.answer(context.run_id, "release[0]", WaitAnswer("first"))
    outcome = engine.run(Flow() >> approval("release")[2], run_context=context)
    assert (outcome.status, outcome.results) == (OutcomeStatus.COMPLETED, {"release": "second"})


def test_a_program_parks_at_once_because_it_has_nothing_beside_the_wait() -> None:
    listener = Waiting()
    with Background(
        Engine(listener=listener), Flow() >> named("a", lambda: 1)[1] >> approval("release")
    ) as run:
        await_signal(listener.is_waiting)
        assert run.outcome().waiting == ("release",)
    assert listener.of("waiting") == [("release", 1, "release", {})]
