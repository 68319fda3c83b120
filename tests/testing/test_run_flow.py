"""Flows under test: virtual time, answers, cancels, lost workers, output. No broker, no other process."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyoco import Flow

from pyoco_server.flows.waits import approval, sleep
from pyoco_server.testing import (
    Approve,
    AskedApproval,
    CodeTooSlow,
    Reject,
    TaskStatus,
    VirtualTime,
    YamlFlow,
    events,
    failed,
    run_flow,
    started,
    succeeded,
    waiting,
)
from pyoco_server.workflow_yaml import WorkflowYamlValidationError
from tests.engine.building import flow_of, make_task, raising
from tests.testing.sample_flows import resolve

DAY_SEC = 86_400.0


def release(**asked: Any) -> Flow:
    flow: Flow = Flow("release") >> approval("release", **asked)
    return flow


def test_the_result_is_json_as_the_server_answers_it() -> None:
    assert run_flow(flow_of(make_task("only", lambda: (1, {"a": (2,)})))).result == [1, {"a": [2]}]
    both = run_flow(flow_of(make_task("a", lambda: 1), make_task("b", lambda: 2)))
    assert both.result == {"a": 1, "b": 2}
    assert run_flow(flow_of(make_task("only", lambda: None))).result is None


def test_params_pass_through_json() -> None:
    run = run_flow(flow_of(make_task("only", lambda pair: type(pair).__name__)), {"pair": (1, 2)})
    assert run.result == "list"


def test_a_result_that_is_too_large_for_the_log_is_referenced_and_whole() -> None:
    many = list(range(50_000))
    first = make_task("first", lambda: many)
    run = run_flow(flow_of(first, make_task("then", lambda first: len(first), [first])))
    assert run.result == len(many)
    assert run.task("first").output == many
    [event] = [one for one in run.events if isinstance(one, events.TaskSucceeded) and one.task == "first"]
    assert isinstance(event.output, dict)
    assert set(event.output) == {"object", "bytes", "sha256"}


def test_ten_days_of_sleep_pass_in_virtual_time() -> None:
    flow = Flow("naps") >> sleep(9 * DAY_SEC, "long") >> sleep(DAY_SEC, "short")
    run = run_flow(flow)
    assert run.status == "COMPLETED"
    assert run.elapsed_sec == 10 * DAY_SEC
    assert run.task("short").ended_at == run.events[0].at + 10 * DAY_SEC


def test_a_backoff_takes_virtual_time_and_always_the_same() -> None:
    run = run_flow(resolve("retry"))
    starts = [event.at - run.events[0].at for event in run.events if isinstance(event, events.TaskStarted)]
    assert starts == pytest.approx([0.0, 0.1, 0.3])
    assert run.task("flaky").attempt == 3


def test_the_start_of_virtual_time_can_be_chosen_and_time_goes_on_between_runs() -> None:
    virtual = VirtualTime(datetime(2030, 5, 1, tzinfo=UTC))
    run_flow(Flow("nap") >> sleep(60), time=virtual)  # waits: in virtual time
    assert virtual.now() == datetime(2030, 5, 1, 0, 1, tzinfo=UTC).timestamp()
    virtual.advance(60)
    assert run_flow(resolve("success"), {"name": "a"}, time=virtual).events[0].at == virtual.now()
    with pytest.raises(ValueError, match="time zone"):
        VirtualTime(datetime(2030, 5, 1))


def test_code_that_sleeps_in_virtual_time_exceeds_its_timeout() -> None:
    virtual = VirtualTime()
    run = run_flow(flow_of(make_task("slow", lambda: virtual.sleep(7200), timeout_sec=60)), time=virtual)
    assert (run.status, run.error) == ("FAILED", "Task 'slow' exceeded timeout of 60s")
    assert run.elapsed_sec == 60
    assert run.left_behind == 0


def test_tasks_side_by_side_sleep_at_the_same_time() -> None:
    virtual = VirtualTime()
    tasks = [make_task(f"t{number}", lambda number=number: virtual.sleep(number)) for number in (10, 20, 30)]
    assert run_flow(flow_of(*tasks), time=virtual, parallelism=3).elapsed_sec == 30
    assert run_flow(flow_of(*tasks), time=virtual, parallelism=1).elapsed_sec == 60


def test_a_lone_task_sleeps_in_the_thread_of_the_test() -> None:
    virtual, threads = VirtualTime(), []

    def nap() -> None:
        virtual.sleep(5)
        threads.append(threading.current_thread())

    assert run_flow(flow_of(make_task("nap", nap)), time=virtual).elapsed_sec == 5
    assert threads == [threading.current_thread()]


def test_the_timeout_of_a_run_is_virtual() -> None:
    virtual = VirtualTime()
    run = run_flow(flow_of(make_task("slow", lambda: virtual.sleep(100))), time=virtual, timeout_sec=60)
    assert (run.status, run.error) == ("FAILED", "The run exceeded its timeout of 60s")


def test_answers_by_task() -> None:
    run = run_flow(
        release(prompt={"q": "?"}), approvals={"release": Approve({"n": (1,)}, by="ann", comment="ok")}
    )
    assert run.result == {"n": [1]}
    assert (run.task("release").by, run.task("release").comment) == ("ann", "ok")
    assert run.elapsed_sec == 1.0


def test_an_answer_that_does_not_have_the_required_type_fails_the_test() -> None:
    with pytest.raises(ValueError, match=r"payload\[0\] must be an integer, not a string"):
        run_flow(release(answer=list[int]), approvals={"release": Approve(["a"])})
    assert run_flow(release(answer=list[int]), approvals={"release": Approve([1])}).result == [1]
    assert run_flow(release(answer=int), approvals={"release": Reject("no")}).status == "FAILED"


def test_answers_of_a_function_that_sees_the_question() -> None:
    asked: list[AskedApproval] = []

    def decide(one: AskedApproval) -> Reject:
        asked.append(one)
        return Reject("too much", after_sec=3600)

    flow = resolve("approval")
    run = run_flow(flow, {"name": "you"}, approvals=decide)
    assert [one.prompt for one in asked] == [{"text": "Hello, you!"}]
    assert (run.status, run.error, run.failed_task) == ("FAILED", "too much", "release")
    assert run.elapsed_sec == 3600
    assert run.task("deploy").state is TaskStatus.CANCELLED


def test_an_answer_that_comes_too_late_meets_the_deadline() -> None:
    run = run_flow(release(timeout_sec=60), approvals={"release": Approve(after_sec=61)})
    assert run.task("release").code == "ERR_TIMEOUT"
    assert run.elapsed_sec == 60


def test_a_run_without_an_answer_stays_waiting_and_says_for_what() -> None:
    run = run_flow(release(prompt={"q": "?"}), approvals=lambda asked: None)
    assert run.status == "RUNNING"
    assert [(one.task, one.prompt) for one in run.waiting] == [("release", {"q": "?"})]


WORKFLOW = """
version: 1
flow:
  graph: "repeat(count=3){ ask } >> answers"
  defaults:
    extra: 7
tasks:
  ask:
    callable: tests.testing.sample_flows:ask
  answers:
    callable: tests.testing.sample_flows:answers_of
"""


def test_a_flow_yaml_with_a_script_of_answers_for_its_loop(tmp_path: Path) -> None:
    path = tmp_path / "nightly.yaml"
    path.write_text(WORKFLOW)
    flow = YamlFlow.read(path, callable_packages=("tests.testing",))
    run = run_flow(flow, approvals={"ask": [Approve("a"), Approve("b"), Approve("c")]})
    assert run.run.flow_name == "nightly"
    assert [run.task(f"ask[{number}]").output for number in range(3)] == ["a", "b", "c"]
    assert run.result == ["c", 7]
    first_wins = run_flow(flow, approvals={"ask[1]": Reject("no"), "ask": Approve("a")})
    assert (first_wins.status, first_wins.error) == ("FAILED", "no")


def test_a_flow_yaml_may_name_what_the_test_allows_and_nothing_else() -> None:
    refused = run_flow(YamlFlow(WORKFLOW))
    assert refused.status == "FAILED"
    assert "PYOCO_CALLABLE_ALLOW" in str(refused.error)
    with pytest.raises(WorkflowYamlValidationError):
        run_flow(YamlFlow("flow:\n  graph: missing\n"))
    with pytest.raises(ValueError, match="defaults"):
        run_flow(YamlFlow(WORKFLOW), {"extra": 8})


def test_an_answer_reaches_a_run_that_still_executes_another_task() -> None:
    virtual = VirtualTime()
    ask = approval("ask").task
    work = make_task("work", lambda: virtual.sleep(100), timeout_sec=1000)
    after = make_task("after", lambda ask: ask, [ask])
    answer = {"ask": Approve("yes", after_sec=10)}
    run = run_flow(flow_of(ask, work, after), time=virtual, approvals=answer, parallelism=2)
    assert run.task("after").output == "yes"
    assert run.task("after").ended_at == run.events[0].at + 10
    assert "RunParked" not in run.kinds
    assert run.elapsed_sec == 100


def test_a_cancel_at_an_event_ends_the_run_and_nothing_undoes_it() -> None:
    for when in (started("count"), succeeded("count"), lambda event: isinstance(event, events.RunClaimed)):
        run = run_flow(resolve("success"), {"name": "you"}, cancel_when=when)
        assert run.status == "CANCELLED"
        assert run.kinds[-2:] == ("CancelRequested", "RunCancelled")
    before = run_flow(resolve("success"), cancel_when=lambda event: isinstance(event, events.RunSubmitted))
    assert before.kinds == ("RunSubmitted", "CancelRequested", "RunCancelled")


def test_a_cancel_between_two_attempts_ends_the_backoff() -> None:
    run = run_flow(resolve("retry"), cancel_when=failed("flaky"))
    assert run.status == "CANCELLED"
    assert run.task("flaky").attempt == 1


def test_a_cancel_while_it_waits() -> None:
    run = run_flow(release(), cancel_when=waiting("release"))
    assert run.status == "CANCELLED"


def test_after_the_grace_a_cancelled_run_does_not_wait_for_its_code() -> None:
    virtual = VirtualTime()
    beside = make_task("beside", lambda: virtual.sleep(10 * DAY_SEC), timeout_sec=100 * DAY_SEC)
    run = run_flow(flow_of(beside), time=virtual, cancel_when=started("beside"))
    assert run.status == "CANCELLED"
    assert 0 < run.elapsed_sec < DAY_SEC
    assert run.left_behind == 0


def test_a_lost_worker_executes_again_what_was_not_recorded() -> None:
    executed: list[str] = []
    first = make_task("first", lambda: executed.append("first"))
    then = make_task("then", lambda: executed.append("then"), [first])
    run = run_flow(flow_of(first, then), lose_worker_before=succeeded("then"))
    assert run.status == "COMPLETED"
    assert executed == ["first", "then", "then"]
    assert run.task("then").attempt == 2
    assert run.kinds.count("RunClaimed") == 2


def test_a_worker_that_is_lost_at_the_very_end_loses_only_the_end() -> None:
    executed: list[str] = []
    flow = flow_of(make_task("only", lambda: executed.append("only")))
    run = run_flow(flow, lose_worker_before=lambda event: isinstance(event, events.RunCompleted))
    assert (run.status, executed) == ("COMPLETED", ["only"])


def test_a_function_builds_the_flow_for_each_claim() -> None:
    built: list[str] = []

    def nightly() -> Flow:
        built.append("nightly")
        flow: Flow = Flow("nightly") >> sleep(1, "nap")  # waits: in virtual time
        return flow

    run = run_flow(nightly)
    assert run.run.flow_name == "nightly"
    assert built == ["nightly", "nightly"]


def test_a_flow_that_cannot_be_built_fails_as_on_a_worker() -> None:
    run = run_flow(raising(LookupError("no such table")))
    assert (run.status, run.error) == ("FAILED", "execution_error: LookupError: no such table")


def test_what_tasks_print_and_log_has_its_task(capsys: pytest.CaptureFixture[str]) -> None:
    def speak() -> None:
        sys.stdout.write("one\n")
        sys.stderr.write("two")
        logging.getLogger("shop").info("three")
        logging.getLogger("shop").debug("four")

    before = logging.getLogger().level
    run = run_flow(flow_of(make_task("speak", speak)))
    assert {(line.stream, line.text, line.task) for line in run.logs} == {
        ("stdout", "one", "speak"),
        ("logging", "shop: three", "speak"),
        ("stderr", "two", "speak"),
    }
    assert "one" in run.printed("speak")
    assert run.printed("other") == ()
    assert capsys.readouterr().out == "one\n"
    assert logging.getLogger().level == before


def test_no_thread_is_left_and_tasks_see_the_context_of_the_test() -> None:
    setting = contextvars.ContextVar("setting", default="none")
    setting.set("of the test")
    before = set(threading.enumerate())
    tasks = [make_task(f"t{number}", lambda: setting.get()) for number in range(5)]
    run = run_flow(flow_of(*tasks), parallelism=3)
    assert set(run.result.values()) == {"of the test"}
    assert set(threading.enumerate()) == before


def test_code_that_does_not_return_is_reported() -> None:
    release_it = threading.Event()
    tasks = [make_task(name, lambda: release_it.wait(30)) for name in ("a", "b")]
    with pytest.raises(CodeTooSlow, match="code_sec_max"):
        run_flow(flow_of(*tasks), code_sec_max=0.05)
    release_it.set()


def test_code_that_ignores_its_timeout_is_left_behind_and_counted() -> None:
    release_it = threading.Event()
    run = run_flow(flow_of(make_task("deaf", lambda: release_it.wait(30), timeout_sec=0.01)))
    assert (run.status, run.left_behind) == ("FAILED", 1)
    release_it.set()


async def test_it_can_be_called_where_a_loop_runs() -> None:
    async def answer() -> int:
        return 42

    assert run_flow(flow_of(make_task("only", answer))).result == 42


def test_a_task_that_does_not_exist_is_named_with_those_that_do() -> None:
    run = run_flow(resolve("success"), {"name": "you"})
    with pytest.raises(KeyError, match="greet, count"):
        run.task("grete")
