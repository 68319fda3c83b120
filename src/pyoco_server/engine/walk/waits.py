"""The waits of one run: which are open, and how an answer ends one. Holds no thread.

An answer is already in the log when it arrives here, so it is recorded and not reported. An answer that
arrives before the walk has reached its task is kept.
"""

from collections import deque

from pyoco_server import clock
from pyoco_server.engine.listener import WaitAnswer, WaitPrompt
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.failure import Failure, describe, try_call
from pyoco_server.engine.tasks.wiring import Wiring
from pyoco_server.engine.walk.plan import TaskSpec
from pyoco_server.engine.walk.signals import AttemptFailed, AttemptSucceeded, Released, Signal


class Waits:
    """Belongs to the scheduler's thread."""

    def __init__(self, wiring: Wiring, reporter: Reporter, signals: deque[Signal]) -> None:
        self._wiring = wiring
        self._reporter = reporter
        self._signals = signals
        self._early: dict[str, WaitAnswer] = {}
        self.open: dict[str, TaskSpec] = {}  # in the order in which they were reached

    def begin(self, spec: TaskSpec, name: str) -> None:
        answer = self._early.pop(name, None)
        if answer is not None:
            self._settle(spec, name, answer)
            return
        attempt = TaskAttempt(spec, name, number=1, started_at=clock.now())
        prompt = try_call(self._prompt, spec, name)
        if isinstance(prompt, BaseException):
            failure = describe(prompt)
            self._reporter.report_failed(attempt, failure, clock.now())
            self._signals.append(AttemptFailed(spec, failure))
            return
        self.open[name] = spec
        self._reporter.report_waiting(attempt, prompt)

    def answer(self, name: str, answer: WaitAnswer) -> None:
        spec = self.open.pop(name, None)
        if spec is None:
            self._early[name] = answer
        else:
            self._settle(spec, name, answer)

    def _prompt(self, spec: TaskSpec, name: str) -> WaitPrompt:
        assert spec.wait is not None
        prompt = self._wiring.prompt(spec)
        return WaitPrompt(spec.wait.key or name, prompt, spec.wait.timeout_sec, spec.wait.on_timeout)

    def _settle(self, spec: TaskSpec, name: str, answer: WaitAnswer) -> None:
        if answer.error is not None:
            failure = Failure(answer.error)
            self._reporter.report_recorded_failure(name, failure)
            self._signals.append(AttemptFailed(spec, failure))
            return
        self._wiring.save(spec, answer.output)
        self._reporter.report_recorded(name, answer.output)
        self._signals.append(AttemptSucceeded(spec, answer.output))
        self._signals.append(Released(spec))  # needs no acknowledgement: the answer came from the log
