"""The form of an answer: a payload that does not match the schema in the prompt changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.decide import Refused, decide
from pyoco_server.lifecycle.decision import Reason
from tests.lifecycle.support.graphs import answer, led, wait_for

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["stage"],
    "properties": {"stage": {"enum": ["canary", "all"]}, "percent": {"type": "integer", "maximum": 100}},
}


def waits(prompt: dict[str, Any] | None = None) -> Any:
    return led(wait_for("ok", prompt={"answer_schema": SCHEMA} if prompt is None else prompt))


def asked(run: Any, command: c.Command) -> Any:
    return decide(run.run, command, run.run.updated_at + 1)


@pytest.mark.parametrize("payload", [None, {}, {"stage": "some"}, {"stage": "all", "percent": 101}])
def test_a_payload_without_the_required_form_is_refused_with_its_problems(payload: object) -> None:
    refused = asked(waits(), answer("ok", "ok", payload=payload))
    assert isinstance(refused, Refused)
    assert refused.reason is Reason.ANSWER
    assert len(refused.problems) == 1


def test_the_wait_stays_open_for_an_answer_that_matches() -> None:
    run = waits().ask(answer("ok", "ok", payload={"stage": "all", "percent": 5}))
    assert run.kinds[-3:] == ["TaskResumed(ok)", "TaskSucceeded(ok)", "RunCompleted()"]


def test_a_rejection_needs_no_payload() -> None:
    run = waits().ask(answer("ok", "ok", rejected=True, comment="no"))
    assert run.states == {"ok": "FAILED"}


@pytest.mark.parametrize("prompt", [{}, {"answer_schema": "a text"}, {"answer_schema": None}])
def test_without_a_schema_any_payload_is_an_answer(prompt: dict[str, Any]) -> None:
    assert waits(prompt).ask(answer("ok", "ok", payload=[1])).states == {"ok": "SUCCEEDED"}


def test_an_accepted_cancel_is_told_first() -> None:
    run = waits().ask(c.CancelRun())
    refused = asked(run, answer("ok", "ok", payload=5))
    assert isinstance(refused, Refused)
    assert refused.reason in (Reason.TERMINAL, Reason.CANCEL_REQUESTED)
