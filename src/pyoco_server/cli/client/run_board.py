"""The runs of a live list: those of a first page, changed by the events of the stream `runs`. Pure.

`watched_list` and `top` show it. Filters are those of the API: what does not match any more leaves the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

SHOWN_MAX = 50
SEARCHED = ("run_id", "flow_name", "tag", "worker_id", "error")

Run = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ListFilter:
    """Which runs the list has."""

    status: str | None = None
    flow: str | None = None
    tag: str | None = None
    search: str | None = None
    changed_after: float | None = None

    def matches(self, run: Run) -> bool:
        return (
            self._has_status(run)
            and self.flow in (None, run.get("flow_name"))
            and self.tag in (None, run.get("tag"))
            and (self.changed_after is None or changed_at(run) > self.changed_after)
            and (self.search is None or self._is_found(run))
        )

    def _has_status(self, run: Run) -> bool:
        """WAITING and EXECUTING are the two kinds of RUNNING."""
        if self.status in ("WAITING", "EXECUTING"):
            is_waiting = bool(run.get("waiting_for"))
            return run.get("status") == "RUNNING" and is_waiting == (self.status == "WAITING")
        return self.status in (None, run.get("status"))

    def _is_found(self, run: Run) -> bool:
        sought = (self.search or "").casefold()
        return any(sought in str(run.get(name) or "").casefold() for name in (*SEARCHED, "tags"))


@dataclass(slots=True)
class RunBoard:
    """The runs by id. `limit`: how many are kept, those that changed last."""

    wanted: ListFilter = ListFilter()
    limit: int = SHOWN_MAX
    _runs: dict[str, Run] = field(default_factory=dict)

    def reset(self, page: Iterable[Run]) -> None:
        self._runs = {str(run["run_id"]): run for run in page}
        self._cut()

    def apply(self, changed: Iterable[Run], gone: Iterable[str]) -> list[Run]:
        """The changed runs that the list shows."""
        shown = []
        for run in changed:
            run_id = str(run["run_id"])
            known = self._runs.get(run_id)
            if known is not None and changed_at(known) > changed_at(run):
                continue  # the page was read after this change
            if self.wanted.matches(run):
                self._runs[run_id] = run
                shown.append(run)
            else:
                self._runs.pop(run_id, None)
        for run_id in gone:
            self._runs.pop(run_id, None)
        self._cut()
        return shown

    @property
    def runs(self) -> list[Run]:
        """Those that changed last first."""
        return sorted(self._runs.values(), key=changed_at, reverse=True)

    def _cut(self) -> None:
        if len(self._runs) > self.limit:
            self._runs = {str(run["run_id"]): run for run in self.runs[: self.limit]}


def changed_at(run: Run) -> float:
    value = run.get("updated_at")
    return value if isinstance(value, int | float) else 0.0
