"""Answers of a test to the approvals of a run: a function, or a script by task. Owns which one is next."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

# `release#2[0]`: of the task `release`, the second position in the program, the first iteration.
_POSITION_AND_ITERATION = re.compile(r"(?:#\d+)?(?:\[\d+\])*$")
# A person does not answer at once: the run is parked before. Shorter than any useful timeout.
ANSWER_AFTER_SEC = 1.0


@dataclass(frozen=True, slots=True)
class Approve:
    """The result of the task is `payload`. `after_sec`: virtual seconds after the question."""

    payload: object = None
    by: str | None = None
    comment: str | None = None
    after_sec: float = ANSWER_AFTER_SEC


@dataclass(frozen=True, slots=True)
class Reject:
    """The task fails, with the comment as its error."""

    comment: str | None = None
    by: str | None = None
    after_sec: float = ANSWER_AFTER_SEC


Answer = Approve | Reject


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """An open approval. `deadline_at`: unix seconds; None if it waits without a limit."""

    task: str
    wait_key: str
    prompt: Mapping[str, object]
    deadline_at: float | None


Approvals = Mapping[str, Answer | Sequence[Answer]] | Callable[[AskedApproval], Answer | None]


class AnswerScript:
    """Asked once for each approval, in the order in which the run reaches them."""

    def __init__(self, approvals: Approvals | None) -> None:
        self._decide = approvals if callable(approvals) else None
        script = {} if approvals is None or callable(approvals) else approvals
        self._script = {name: _in_order(answers) for name, answers in script.items()}

    def next(self, asked: AskedApproval) -> Answer | None:
        """None: the approval gets no answer."""
        if self._decide is not None:
            return self._decide(asked)
        for name in (asked.task, _POSITION_AND_ITERATION.sub("", asked.task)):
            if self._script.get(name):
                return self._script[name].pop(0)
        return None


def _in_order(answers: Answer | Sequence[Answer]) -> list[Answer]:
    return [answers] if isinstance(answers, Approve | Reject) else list(answers)
