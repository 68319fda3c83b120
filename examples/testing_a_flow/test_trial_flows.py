"""Tests of a flow that takes two weeks. They take no time: see docs/how-to/testing-flows.md."""

import pytest
import trial_flows

from pyoco_server.testing import Approve, AskedApproval, Reject, events, run_flow, started, waiting

ANN = {"customer": "ann"}
YES = {"convert": Approve({"plan": "small"})}


def test_a_customer_who_converts_is_billed_after_a_week() -> None:
    run = run_flow(trial_flows.trial, ANN, approvals=YES)
    assert run.result == "invoice-ann (small)"
    assert run.elapsed_sec == trial_flows.WEEK_SEC + 1
    assert run.printed("welcome") == ("welcome, ann",)


def test_the_question_names_the_customer() -> None:
    asked: list[AskedApproval] = []

    def answer(one: AskedApproval) -> Reject:
        asked.append(one)
        return Reject("too expensive")

    run = run_flow(trial_flows.trial, ANN, approvals=answer)
    assert [one.prompt for one in asked] == [{"customer": "ann"}]
    assert (run.status, run.error) == ("FAILED", "too expensive")
    assert run.task("bill").state == "CANCELLED"


def test_without_an_answer_the_trial_ends_after_another_week() -> None:
    run = run_flow(trial_flows.trial, ANN)
    assert run.task("convert").code == "ERR_TIMEOUT"
    assert run.elapsed_sec == 2 * trial_flows.WEEK_SEC


def test_billing_is_tried_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(customer: str) -> str:
        raise ConnectionError("billing is down")

    monkeypatch.setattr(trial_flows, "call_billing", refuse)
    run = run_flow(trial_flows.trial, ANN, approvals=YES)
    tries = [event for event in run.events if isinstance(event, events.TaskFailed)]
    assert [one.will_retry for one in tries] == [True, True, False]
    assert (run.status, run.failed_task) == ("FAILED", "bill")


@pytest.mark.parametrize("point", [waiting("trial_week"), waiting("convert"), started("bill")])
def test_a_cancelled_trial_is_not_billed(point: object) -> None:
    assert callable(point)
    run = run_flow(trial_flows.trial, ANN, approvals=YES, cancel_when=point)
    assert run.status == "CANCELLED"
    assert run.kinds[-1] == "RunCancelled"
