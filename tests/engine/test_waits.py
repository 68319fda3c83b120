"""Tasks that wait: no thread, no code, parked when nothing else is left, and on again with the answer."""

import threading
from collections.abc import Mapping
from typing import Any

from pyoco.core.context import Context
from pyoco.core.models import Flow, RunContext, RunStatus, Task, TaskState
from pyoco.dsl.syntax import task

from pyoco_server.engine import Engine, OutcomeStatus, RunOutcome, WaitAnswer, WaitPrompt
from pyoco_server.engine.control import EARLY_ANSWERED_MAX
from pyoco_server.flows import waits
from pyoco_server.flows.waits import approval
from tests.engine.building import Background, Diary, Obedient, await_signal, flow_of, make_task


def wait_task(name: str, *needs: Task, **settings: Any) -> Task:
    made = approval(name, **settings).task
    return make_task(name, made.func, needs)


def release_flow(ran: list[str] | None = None) -> Flow:
    """build >> release (waits) >> deploy"""
    ran = [] if ran is None else ran

    def build() -> str:
        ran.append("build")
        return "v1"

    def deploy(build: str, release: Any) -> list[Any]:
        ran.append("deploy")
        return [build, release]

    first = make_task("build", build)
    release = wait_task("release", first, prompt={"version": "$node.build.output", "price": "$100"})
    return flow_of(first, release, make_task("deploy", deploy, [release]))


class Waiting(Diary):
    """Says when a task waits."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, WaitPrompt] = {}
        self.is_waiting = threading.Event()

    def task_waiting(self, name: str, attempt: int, asked: WaitPrompt) -> None:
        super().task_waiting(name, attempt, asked)
        self.asked[name] = asked
        self.is_waiting.set()


def test_a_run_that_has_nothing_left_but_a_wait_is_parked_and_nothing_is_cancelled() -> None:
    diary, context = Diary(), RunContext()
    outcome = Engine(listener=diary).run(release_flow(), run_context=context)
    assert (outcome.status, outcome.waiting, outcome.results) == (
        OutcomeStatus.PARKED,
        ("release",),
        {"build": "v1"},
    )
    assert diary.entries[1:] == [
        ("started", "build", 1, {}),
        ("succeeded", "build", 1, "v1"),
        ("waiting", "release", 1, "release", {"version": "v1", "price": "$100"}),
    ]
    assert context.status is RunStatus.RUNNING
    assert context.tasks["deploy"] is TaskState.PENDING


def test_a_parked_run_goes_on_after_the_wait_and_tells_nothing_twice() -> None:
    diary, ran = Diary(), list[str]()
    outcome = Engine(listener=diary).run(
        release_flow(ran), recorded={"build": "v1", "release": {"by": "ann"}}
    )
    assert (outcome.status, outcome.waiting) == (OutcomeStatus.COMPLETED, ())
    assert outcome.results["deploy"] == ["v1", {"by": "ann"}]
    assert ran == ["deploy"]
    assert [entry[:2] for entry in diary.entries[1:]] == [("started", "deploy"), ("succeeded", "deploy")]


def test_a_rejected_wait_fails_the_run_by_its_recorded_failure_and_is_not_told_again() -> None:
    diary = Diary()
    outcome = Engine(listener=diary).run(
        release_flow(), recorded={"build": "v1"}, failures={"release": "too risky"}
    )
    assert (outcome.status, outcome.error, outcome.failed_task) == (
        OutcomeStatus.FAILED,
        "too risky",
        "release",
    )
    assert diary.entries[1:] == [("cancelled", "deploy")]


def test_a_rejected_wait_that_fails_alone_dooms_only_what_needs_it() -> None:
    diary = Diary()
    release = wait_task("release")
    release.fail_policy = "isolate"
    deploy = make_task("deploy", lambda: 1, [release])
    report = make_task("report", lambda: "reported")
    outcome = Engine(listener=diary).run(flow_of(release, deploy, report), failures={"release": "no"})
    assert (outcome.status, outcome.results) == (OutcomeStatus.COMPLETED, {"report": "reported"})
    assert diary.of("failed") == [("deploy", 0, "Not run, because task 'release' failed", False)]


def test_what_failed_alone_before_the_park_neither_runs_nor_is_told_again() -> None:
    ran: list[str] = []

    def fail() -> None:
        ran.append("bad")
        raise ValueError("bad")

    def flow() -> Flow:
        bad = make_task("bad", fail, fail_policy="isolate")
        after_bad = make_task("after_bad", lambda: 1, [bad])
        release = wait_task("release")
        return flow_of(bad, after_bad, release, make_task("deploy", lambda: "done", [release]))

    first = Diary()
    assert Engine(listener=first).run(flow()).status is OutcomeStatus.PARKED
    failures = {name: error for name, _, error, _ in first.of("failed")}
    assert set(failures) == {"bad", "after_bad"}
    second = Diary()
    outcome = Engine(listener=second).run(flow(), recorded={"release": None}, failures=failures)
    assert (outcome.status, outcome.results["deploy"], ran) == (OutcomeStatus.COMPLETED, "done", ["bad"])
    assert second.of("failed") == []


def test_a_task_that_failed_and_should_have_ended_the_run_is_executed_again() -> None:
    task = make_task("a", lambda: "well this time")
    outcome = Engine().run(flow_of(task), failures={"a": "its worker died before it could say so"})
    assert outcome.results == {"a": "well this time"}


def test_other_branches_go_on_while_one_waits_and_an_answer_continues_it_at_once() -> None:
    listener = Waiting()
    deployed = threading.Event()

    def deploy_it(release: Any) -> Any:
        deployed.set()
        return release

    busy = make_task("busy", lambda: deployed.wait(20))
    release = wait_task("release")
    deploy = make_task("deploy", deploy_it, [release])
    engine = Engine(listener=listener, lone_tasks_here=True)
    with Background(engine, flow_of(busy, release, deploy)) as run:
        await_signal(listener.is_waiting)
        run.answer("release", WaitAnswer({"ok": True}))
        outcome = run.outcome()
    assert (outcome.status, outcome.results) == (
        OutcomeStatus.COMPLETED,
        {"busy": True, "release": {"ok": True}, "deploy": {"ok": True}},
    )
    assert [entry[0] for entry in listener.of("succeeded")].count("release") == 0


def test_a_task_beside_a_wait_does_not_keep_the_answer_from_being_heard() -> None:
    """With `lone_tasks_here` a task that is alone runs in the scheduler's thread: not beside a wait."""
    listener = Waiting()
    deployed = threading.Event()
    first = make_task("first", lambda: 1)
    busy = make_task("busy", lambda: deployed.wait(20), [first])
    release = wait_task("release")
    deploy = make_task("deploy", lambda: deployed.set(), [release])
    engine = Engine(listener=listener, lone_tasks_here=True)
    with Background(engine, flow_of(first, busy, release, deploy)) as run:
        await_signal(listener.is_waiting)
        run.answer("release", WaitAnswer(None))
        assert run.outcome().results["busy"] is True


def test_a_rejection_while_the_run_is_live_fails_it_and_stops_the_others() -> None:
    listener, other = Waiting(), Obedient()
    with Background(
        Engine(listener=listener), flow_of(make_task("other", other), wait_task("release"))
    ) as run:
        await_signal(other.running)
        await_signal(listener.is_waiting)
        run.answer("release", WaitAnswer(error="too risky"))
        outcome = run.outcome()
    assert (outcome.status, outcome.error, outcome.failed_task) == (
        OutcomeStatus.FAILED,
        "too risky",
        "release",
    )
    assert listener.of("failed") == []


def test_an_answer_before_the_run_or_before_its_task_is_kept_for_it() -> None:
    context, diary = RunContext(), Diary()
    engine = Engine(listener=diary)
    engine.answer(context.run_id, "release", WaitAnswer("early"))
    outcome = engine.run(release_flow(), run_context=context)
    assert (outcome.status, outcome.results["deploy"]) == (OutcomeStatus.COMPLETED, ["v1", "early"])
    assert diary.of("waiting") == []
    assert engine.run(release_flow(), run_context=RunContext()).status is OutcomeStatus.PARKED


def test_answers_for_runs_that_never_come_do_not_gather_for_ever() -> None:
    engine, first = Engine(), RunContext()
    engine.answer(first.run_id, "release", WaitAnswer("forgotten"))
    for number in range(EARLY_ANSWERED_MAX):
        engine.answer(f"run {number}", "release", WaitAnswer(None))
    assert engine.run(release_flow(), run_context=first).status is OutcomeStatus.PARKED


def test_a_cancel_wins_over_an_open_wait() -> None:
    listener, other = Waiting(), Obedient()
    with Background(
        Engine(listener=listener), flow_of(make_task("other", other), wait_task("release"))
    ) as run:
        await_signal(other.running)
        await_signal(listener.is_waiting)
        run.cancel()
        assert run.outcome().status is OutcomeStatus.CANCELLED
    assert listener.of("cancelled") == [("release",)]


def test_a_cancelled_run_is_not_parked() -> None:
    engine, context = Engine(), RunContext()
    engine.cancel(context.run_id)
    assert engine.run(release_flow(), run_context=context).status is OutcomeStatus.CANCELLED


def test_a_failure_beside_an_open_wait_ends_the_run_and_the_wait() -> None:
    diary = Diary()
    bad = make_task("bad", lambda: 1 / 0)
    outcome = Engine(listener=diary).run(flow_of(bad, wait_task("release")))
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "bad")
    assert diary.of("cancelled") == [("release",)]


def test_a_prompt_that_refers_to_nothing_fails_the_wait() -> None:
    diary = Diary()
    outcome = Engine(listener=diary).run(flow_of(wait_task("release", prompt={"v": "$ctx.params.version"})))
    assert (outcome.status, outcome.failed_task) == (OutcomeStatus.FAILED, "release")
    assert "version" in (outcome.error or "")
    assert [entry[:2] for entry in diary.of("failed")] == [("release", 1)]


def test_several_waits_are_open_at_once_and_any_of_them_can_be_enough() -> None:
    def flow() -> Flow:
        ann, bob = wait_task("ann"), wait_task("bob")
        both = make_task("both", lambda ann, bob: [ann, bob], [ann, bob])
        either = make_task("either", lambda ctx: sorted(ctx.results), [ann, bob], trigger_policy="ANY")
        return flow_of(ann, bob, both, either)

    first = Engine().run(flow())
    assert (first.status, first.waiting) == (OutcomeStatus.PARKED, ("ann", "bob"))
    second = Engine().run(flow(), recorded={"bob": 2})
    assert (second.status, second.waiting, second.results["either"]) == (
        OutcomeStatus.PARKED,
        ("ann",),
        ["bob"],
    )
    third = Engine().run(flow(), recorded={"bob": 2, "ann": 1, "either": ["bob"]})
    assert (third.status, third.results["both"]) == (OutcomeStatus.COMPLETED, [1, 2])


def test_a_run_waits_for_acknowledgements_before_it_is_parked() -> None:
    kept: list[Any] = []
    succeeded = threading.Event()

    class Withholding(Waiting):
        def task_succeeded(self, name: str, attempt: int, output: Any, *rest: Any) -> None:
            kept.append(rest[-1])
            succeeded.set()

    release = wait_task("release")
    a = make_task("a", lambda: 1)
    with Background(
        Engine(listener=Withholding()), flow_of(a, release, make_task("b", lambda: 2, [a]))
    ) as run:
        await_signal(succeeded)
        assert not run.is_over
        succeeded.clear()
        kept[0]()
        await_signal(succeeded)
        kept[1]()
        assert run.outcome().status is OutcomeStatus.PARKED


def test_two_waits_of_one_name_are_refused_before_anything_runs() -> None:
    ran: list[int] = []
    first, second = waits.sleep(5), waits.sleep(5)
    work = make_task("work", lambda: ran.append(1))
    flow = Flow("f") >> first >> work >> second >> make_task("end", lambda: ran.append(2))
    outcome = Engine().run(flow)
    assert (outcome.status, ran) == (OutcomeStatus.FAILED, [])
    assert outcome.error == "Two tasks of the flow are called 'sleep_5'; give each its own name"


def test_a_flow_that_is_built_anew_around_shared_tasks_has_its_own_waits() -> None:
    before, after = task(lambda: 1), task(lambda: 2)
    before.task.name, after.task.name = "before", "after"
    for _ in range(3):
        flow = Flow("f") >> before >> waits.sleep(5) >> after
        assert Engine().run(flow).waiting == ("sleep_5",)


def test_inputs_of_a_wait_are_asked_too_and_outputs_are_saved_at_their_paths() -> None:
    release = wait_task("release", prompt={"a": 1})
    release.inputs = {"b": "$ctx.params.x"}
    release.outputs = ["scratch.answer"]

    def look(ctx: Context) -> Any:
        return ctx.scratch["answer"]

    def flow() -> Flow:
        return flow_of(release, make_task("look", look, [release]))

    listener = Waiting()
    assert Engine(listener=listener).run(flow(), {"x": 2}).status is OutcomeStatus.PARKED
    assert listener.asked["release"].prompt == {"a": 1, "b": 2}
    assert Engine().run(flow(), {"x": 2}, recorded={"release": "yes"}).results["look"] == "yes"


def test_what_a_wait_says_of_its_time_is_told() -> None:
    listener = Waiting()
    flow = flow_of(
        wait_task("release", timeout_sec=60, on_timeout="succeed", wait_key="go"), waits.sleep(5).task
    )
    assert Engine(listener=listener).run(flow).waiting == ("release", "sleep_5")
    told: Mapping[str, WaitPrompt] = listener.asked
    assert told["release"] == WaitPrompt("go", {}, 60, "succeed")
    assert told["sleep_5"] == WaitPrompt("sleep:sleep_5", {}, 5, "succeed")


def lives(flow: Any, answers: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> list[RunOutcome]:
    """Run it again and again, each time with what was recorded and an answer to whatever waits."""
    recorded: dict[str, Any] = {}
    outcomes: list[RunOutcome] = []
    while not outcomes or outcomes[-1].status is OutcomeStatus.PARKED:
        assert len(outcomes) < 10, "it is parked for ever"
        diary = Diary()
        outcomes.append(Engine(listener=diary).run(flow(), dict(params or {}), recorded=recorded))
        recorded |= {name: output for name, _, output in diary.of("succeeded")}
        recorded |= {name: answers[name] for name in outcomes[-1].waiting}
    return outcomes
