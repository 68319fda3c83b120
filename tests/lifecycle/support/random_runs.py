"""Random histories: what several workers and askers might want, made into commands for the run as it is.

An intent is relative ("the holder's fence, or one older"), so that most of them are accepted and histories
get deep. Clocks of different machines disagree by a little.
"""

from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle import events as e
from pyoco_server.lifecycle.decide import Refused, decide_all
from pyoco_server.lifecycle.graph import OnTimeout
from pyoco_server.lifecycle.reduce import fold
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import LossCause, OutputKept
from tests.lifecycle.support.alphabet import AT, submitted

QUICK = settings(deadline=None, max_examples=100, suppress_health_check=list(HealthCheck))
THOROUGH = settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))

TASKS = ("a", "b", '作業 \x01"c"')
# What somebody sensible would want of a run that stands like this; what is wanted often stands here often.
CLAIMED = (
    *("start", "succeed", "wait", "park") * 6,
    *("fail",) * 4,
    *("loss", "hand_back", "resume", "plan") * 2,
    *("crash", "skip", "add_tag", "cancel", "confirm", "complete", "fail_run"),
)
OWED = (*("claim",) * 10, "requeue", "add_tag", "remove_tag", "resume", "discard")
PARKED = (*("resume",) * 8, *("pass_time",) * 2, "reject", "add_tag", "remove_tag", "cancel")
KINDS = tuple(sorted({*CLAIMED, *OWED, *PARKED, "archive", "erase", "submit"}))


class Intent(NamedTuple):
    stray: str | None  # wanted however the run stands, as a late or mistaken message would
    pick: int
    task: str
    age: int  # 0: the present holder or job; 1: the one before; -1: one that does not exist yet
    size: int
    flag: bool
    skew: float


class Limit(NamedTuple):
    """A size around which the history in question has to leave something out."""

    reached_by: str
    commit: int  # counted from the last
    more: int

    def of(self, commits: "list[Commit]") -> int:
        run = commits[-1 - self.commit % len(commits)].after
        return int(getattr(run, self.reached_by)) + self.more


class Commit(NamedTuple):
    events: tuple[e.Event, ...]
    before: Run | None
    after: Run


_TASKS_PICKED = (TASKS[0], TASKS[0], TASKS[1], TASKS[2])
_AGES = (0, 0, 0, 0, 0, 0, 0, 0, 1, -1)
_SIZES = (0, 1, 50, 500, 5000)
_SKEWS = (0.0, 0.125, 0.3, -3.0)
_PICKS = 250
_INTENTS = _PICKS * 4 * len(_TASKS_PICKED) * len(_AGES) * len(_SIZES) * 2 * len(_SKEWS)


def _intent(number: int) -> Intent:
    """One number for all members: drawing each by itself takes most of the time there is."""
    number, pick = divmod(number, _PICKS)
    number, kind = divmod(number, 4)
    number, task = divmod(number, len(_TASKS_PICKED))
    number, age = divmod(number, len(_AGES))
    number, size = divmod(number, len(_SIZES))
    flag, skew = divmod(number, len(_SKEWS))
    return Intent(
        stray=KINDS[pick % len(KINDS)] if kind == 3 else None,
        pick=pick,
        task=_TASKS_PICKED[task],
        age=_AGES[age],
        size=_SIZES[size],
        flag=bool(flag),
        skew=_SKEWS[skew],
    )


intents = st.integers(0, _INTENTS - 1).map(_intent)
# Most commits answer one command, some several at once.
_together = st.lists(intents, min_size=1, max_size=1) | st.lists(intents, min_size=1, max_size=3)
wishes = st.lists(_together, max_size=10) | st.lists(_together, min_size=20, max_size=45)

limits = st.builds(
    Limit,
    reached_by=st.sampled_from(("bytes_full", "bytes_full", "bytes_slim", "bytes_slim", "bytes_bare")),
    commit=st.integers(0, 99),
    more=st.sampled_from((0, -1, 1, 2, 1_000_000, -100_000)),
)


def play(asked: list[list[Intent]], submission: e.RunSubmitted | None = None) -> list[Commit]:
    """What was committed; what was refused or had nothing to do left no trace."""
    first = submission or submitted(tags=[])
    run = fold(None, (first,))
    assert run is not None
    commits = [Commit((first,), None, run)]
    for number, together in enumerate(asked):
        at = AT + number + together[0].skew
        decision = decide_all(run, [command_for(run, intent, at) for intent in together], at)
        if not isinstance(decision, Refused) and decision:
            after = fold(run, decision)
            assert after is not None
            commits.append(Commit(decision, run, after))
            run = after
    return commits


def log_of(commits: list[Commit]) -> list[e.Event]:
    return [event for commit in commits for event in commit.events]


def command_for(run: Run, intent: Intent, at: float) -> c.Command:
    kind = intent.stray or _likely(run, intent.pick)
    return _of_anybody(run, kind, intent) or _of_worker(run, kind, intent, at)


def _likely(run: Run, pick: int) -> str:
    if run.is_terminal:
        return KINDS[pick % len(KINDS)]
    wanted = CLAIMED if run.claim else PARKED if run.parked else OWED
    return wanted[pick % len(wanted)]


def _of_anybody(run: Run, kind: str, intent: Intent) -> c.Command | None:
    match kind:
        case "submit":
            return c.SubmitRun(submission=submitted())
        case "claim":
            worker_id = f"w{intent.size}"
            return c.ClaimRun(worker_id=worker_id, instance_id="i", job_no=run.job_no - intent.age)
        case "requeue":
            return c.RequeueRun(job_no=run.job_no - intent.age, reason="owed")
        case "resume":
            key = "wrong" if intent.age else "k"
            return c.ResumeTask(task=intent.task, wait_key=key, payload=_payload(intent))
        case "reject":
            return c.ResumeTask(task=intent.task, wait_key="k", rejected=True, comment="ü" * intent.size)
        case "pass_time":
            return c.PassTime()
        case "cancel":
            return c.CancelRun(by="ann", reason="é" * intent.size)
        case "add_tag":
            return c.AddTag(tag=f"t{intent.size}{intent.flag}", tags_max=3)
        case "remove_tag":
            return c.RemoveTag(tag=f"t{intent.size}{intent.flag}")
        case "discard":
            return c.DiscardRun(reason="no job")
        case "archive":
            return c.ArchiveRun()
        case "erase":
            return c.EraseRun()
        case _:
            return None


def _of_worker(run: Run, kind: str, intent: Intent, at: float) -> c.Command:
    fence = run.fence - intent.age
    match kind:
        case "loss" | "crash" | "hand_back":
            return _loss(fence, kind, intent)
        case "confirm":
            return c.ConfirmCancelled(fence=None if intent.flag and run.claim is None else fence)
        case "plan":
            return c.PlanTasks(fence=fence, tasks=list(TASKS))
        case "park":
            waiting = [name for name, record in run.tasks.items() if record.wait]
            return c.ParkRun(fence=fence, waiting=waiting or [intent.task])
        case "complete":
            return c.CompleteRun(fence=fence)
        case "fail_run":
            return c.FailRun(fence=fence, reason="execution_error", error="x" * intent.size, task=intent.task)
        case "skip":
            return c.SkipTask(fence=fence, task=intent.task)
        case _:
            return _about_a_task(run, kind, intent, fence, at)


def _about_a_task(run: Run, kind: str, intent: Intent, fence: int, at: float) -> c.Command:
    task = intent.task
    record = run.tasks.get(task)
    attempt = max(1, (record.attempt if record else 0) + (kind == "start") - (intent.size in (50, 500)))
    match kind:
        case "start":
            inputs = {"x": _payload(intent)} if intent.size else None
            return c.StartTask(fence=fence, task=task, attempt=attempt, inputs=inputs)
        case "succeed":
            return c.SucceedTask(
                fence=fence,
                task=task,
                attempt=attempt,
                started_at=at - 0.7,
                ended_at=at,
                output=_payload(intent),
                kept=OutputKept.UNSERIALISABLE if intent.age else OutputKept.STORED,
            )
        case "fail":
            return c.FailTask(
                fence=fence,
                task=task,
                attempt=attempt,
                started_at=at - 0.7,
                ended_at=at,
                error="\x02错" * intent.size,
                traceback="Traceback\n" * intent.size,
                will_retry=intent.flag,
            )
        case _:
            assert kind == "wait"
            prompt: dict[str, object] | None = {"ask": "?" * intent.size} if intent.flag else None
            return c.PutTaskWaiting(
                fence=fence,
                task=task,
                attempt=attempt,
                wait_key="k",
                prompt=prompt,
                deadline_at=None if intent.age else at + (60 if intent.size else 2),
                on_timeout=OnTimeout.SUCCEED if intent.flag else OnTimeout.FAIL,
            )


def _loss(fence: int, kind: str, intent: Intent) -> c.ReportLoss:
    causes = {
        "loss": LossCause.WORKER_LOST,
        "crash": LossCause.SLOT_CRASHED,
        "hand_back": LossCause.HANDED_BACK,
    }
    detail = "signal 9" if intent.flag else None
    return c.ReportLoss(fence=fence, cause=causes[kind], losses_max=4, crashes_max=3, detail=detail)


def _payload(intent: Intent) -> Any:
    return {"text": "ö" * intent.size, "n": [intent.size, 0.1, None]} if intent.flag else "z" * intent.size
