"""What the live view shows: runs, workers, approvals, the backlog, and whether the gateway answers. Pure.

Changed by what `feed` reads; read by `app`. It is bounded: the runs that changed last, the approvals that
wait longest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pyoco_server.cli.client.run_board import ListFilter, Run, RunBoard

RUNS_MAX = 100
APPROVALS_MAX = 200
STATUSES = ("PENDING", "RUNNING", "CANCELLING", "COMPLETED", "FAILED", "CANCELLED")
FINISHED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})

Item = Mapping[str, object]


class Shown(StrEnum):
    """Which runs are listed. The key `f` goes from one to the next."""

    ALL = "all"
    ACTIVE = "active"
    WAITING = "waiting"
    FAILED = "failed"

    @property
    def next(self) -> Shown:
        every = list(Shown)
        return every[(every.index(self) + 1) % len(every)]


@dataclass(slots=True)
class TopBoard:
    """`problem`: why there is no connection; empty while there is one."""

    runs: RunBoard = field(default_factory=lambda: RunBoard(ListFilter(), RUNS_MAX))
    workers: dict[str, Item] = field(default_factory=dict)
    approvals: list[Item] = field(default_factory=list)
    tags: list[Item] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    waiting: int = 0
    problem: str = "connecting"
    shown: Shown = Shown.ALL

    def apply_runs(self, news: Item) -> None:
        """An event of the stream `runs`, which has the changes and the counts."""
        changed, gone, counts = news.get("runs"), news.get("gone"), news.get("counts")
        self.runs.apply(_items(changed), [str(one) for one in gone] if isinstance(gone, list) else [])
        if isinstance(counts, dict):
            self.counts = {name: count for name, count in counts.items() if isinstance(count, int)}
        waiting = news.get("waiting")
        self.waiting = waiting if isinstance(waiting, int) else self.waiting

    def apply_workers(self, news: Item) -> None:
        """An event of the stream `workers`: all of them, or those that changed."""
        if news.get("all"):
            self.workers.clear()
        for worker in _items(news.get("workers")):
            self.workers[str(worker["worker_id"])] = worker
        gone = news.get("gone")
        for worker_id in gone if isinstance(gone, list) else []:
            self.workers.pop(str(worker_id), None)

    def apply_tags(self, tags: Iterable[Item]) -> None:
        """Those that have waiting runs, the longest queue first."""
        self.tags = sorted((one for one in tags if _backlog(one)), key=_backlog, reverse=True)

    @property
    def listed_runs(self) -> list[Run]:
        return [run for run in self.runs.runs if self._is_listed(run)]

    @property
    def live_workers(self) -> list[Item]:
        """By name, so that a line stays where it is."""
        return [self.workers[name] for name in sorted(self.workers)]

    def approval_of(self, run_id: str) -> Item | None:
        """The task of this run that waits longest for an answer."""
        return next((one for one in self.approvals if one.get("run_id") == run_id), None)

    def _is_listed(self, run: Run) -> bool:
        match self.shown:
            case Shown.ACTIVE:
                return run.get("status") not in FINISHED
            case Shown.WAITING:
                return bool(run.get("waiting_for"))
            case Shown.FAILED:
                return run.get("status") == "FAILED"
        return True


def _backlog(tag: Item) -> int:
    waiting = tag.get("backlog")
    return waiting if isinstance(waiting, int) else 0


def _items(value: object) -> Iterable[Item]:
    return value if isinstance(value, list) else []
