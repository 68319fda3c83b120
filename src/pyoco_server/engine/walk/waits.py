"""The waits of one run: which are open, and what becomes of one that is answered. Holds no thread.

An answer is in the log before it comes here: it is written down and not told. One that comes before the walk
has got to its task is kept for it.
"""

from collections import deque

from pyoco_server import clock
from pyoco_server.engine.answer import WaitAnswer
from pyoco_server.engine.listener import WaitPrompt
from pyoco_server.engine.reporter import Reporter
from pyoco_server.engine.tasks.attempt import TaskAttempt
from pyoco_server.engine.tasks.failure import Failure, describe
from pyoco_server.engine.tasks.wiring import Wiring
from pyoco_server.engine.walk.plan import TaskSpec
from pyoco_server.engine.walk.signals import AttemptFailed, AttemptSucceeded, News, Released


class Waits:
    """Belongs to the scheduler's thread."""

    def __init__(self, wiring: Wiring, reporter: Reporter, news: deque[News]) -> None:
        self._wiring = wiring
        self._reporter = reporter
        self._news = news
        self._early: dict[str, WaitAnswer] = {}
        self.open: dict[str, TaskSpec] = {}  # in the order in which they were reached

    def begin(self, spec: TaskSpec, name: str) -> None:
        answer = self._early.pop(name, None)
        if answer is not None:
            self._settle(spec, name, answer)
            return
        attempt = TaskAttempt(spec, name, number=1, started_at=clock.now())
        try:
            asked = self._asked(spec, name)
        except Exception as exc:  # user code: a reference may lead to a property that raises
            failure = describe(exc)
            self._reporter.report_failed(attempt, failure, clock.now())
            self._news.append(AttemptFailed(spec, failure))
            return
        self.open[name] = spec
        self._reporter.report_waiting(attempt, asked)

    def answer(self, name: str, answer: WaitAnswer) -> None:
        spec = self.open.pop(name, None)
        if spec is None:
            self._early[name] = answer
        else:
            self._settle(spec, name, answer)

    def _asked(self, spec: TaskSpec, name: str) -> WaitPrompt:
        assert spec.wait is not None
        prompt = self._wiring.prompt(spec)
        return WaitPrompt(spec.wait.key or name, prompt, spec.wait.timeout_sec, spec.wait.on_timeout)

    def _settle(self, spec: TaskSpec, name: str, answer: WaitAnswer) -> None:
        if answer.error is not None:
            failure = Failure(answer.error)
            self._reporter.report_recorded_failure(name, failure)
            self._news.append(AttemptFailed(spec, failure))
            return
        self._wiring.save(spec, answer.output)
        self._reporter.report_recorded(name, answer.output)
        self._news.append(AttemptSucceeded(spec, answer.output))
        self._news.append(Released(spec))  # nothing has to be acknowledged: it came out of the log
