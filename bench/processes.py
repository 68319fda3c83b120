"""What the kernel counts for processes: processor time, context switches, memory. Reads `/proc`.

Uses the standard library only: `bench.peers` imports it in the environments of other systems.

Processor time of children that have ended is exact, because their parent keeps it. Nothing keeps their
context switches, so a `Watch` samples them; the switches of a child that lives shorter than a sample are not
counted, nor are those of threads that have ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

PROC = Path("/proc")
TICKS = os.sysconf("SC_CLK_TCK")
SAMPLE_SEC = 0.5
ENDED = "ended children"


class Stat(NamedTuple):
    """The parts of `/proc/<pid>/stat` that we use. `reaped_sec` is the time of children that have ended."""

    name: str
    parent: int
    own_sec: float
    reaped_sec: float
    started: int


class Switches(NamedTuple):
    """Voluntary: the thread waited. Forced: the kernel took the core away."""

    voluntary: int
    forced: int


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of one process so far. `role` says what the process is for."""

    role: str
    own_sec: float
    reaped_sec: float = 0.0
    voluntary: int = 0
    forced: int = 0


# A process is a pid and when it started, because pids are used again.
Key = tuple[int, int]
Sample = dict[Key, Counted]


@dataclass(slots=True)
class Spent:
    """What one role has used between two samples."""

    cpu_sec: float = 0.0
    voluntary: int = 0
    forced: int = 0


def parse_stat(text: str) -> Stat:
    """The name is in parentheses, and may itself contain spaces and parentheses."""
    before, _, after = text.rpartition(")")
    fields = after.split()
    own, reaped = (sum(map(int, fields[at : at + 2])) / TICKS for at in (11, 13))
    return Stat(before.partition("(")[2], int(fields[1]), own, reaped, int(fields[19]))


def parse_switches(status: str) -> Switches:
    numbers = dict(line.split(":", 1) for line in status.splitlines() if "ctxt_switches" in line)
    return Switches(
        int(numbers.get("voluntary_ctxt_switches", 0)), int(numbers.get("nonvoluntary_ctxt_switches", 0))
    )


def parse_busy_sec(stat: str) -> float:
    """Seconds that all cores were busy, from the first line of `/proc/stat`: all but idle and iowait."""
    ticks = [int(number) for number in stat.splitlines()[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / TICKS


def parse_pss_mb(rollup: str) -> float:
    """Proportional set size: a page that several processes share is divided between them."""
    sizes = [int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")]
    return sum(sizes) / 1024


def busy_sec() -> float:
    return parse_busy_sec((PROC / "stat").read_text())


def stat_of(pid: int) -> Stat | None:
    """None if the process has ended."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text())
    except OSError:
        return None


def pss_mb(pids: Iterable[int]) -> float:
    return sum(parse_pss_mb(_read(PROC / str(pid) / "smaps_rollup")) for pid in pids)


def all_stats() -> dict[int, Stat]:
    """Read from all processes: not every kernel has a list of children."""
    pids = [int(entry.name) for entry in PROC.iterdir() if entry.name.isdigit()]
    return {pid: stat for pid in pids if (stat := stat_of(pid))}


def descendants(root: int, stats: Mapping[int, Stat]) -> list[int]:
    """All processes below `root`, at any depth, without `root` itself."""
    children: dict[int, list[int]] = defaultdict(list)
    for pid, stat in stats.items():
        children[stat.parent].append(pid)
    found, to_visit = [], [root]
    while to_visit:
        below = children[to_visit.pop()]
        found += below
        to_visit += below
    return found


def tree(root: int) -> list[int]:
    return [root, *descendants(root, all_stats())]


def sample(roots: Mapping[str, int]) -> Sample:
    """The counters of all processes of these trees. A child's role is `<role of the root> › <its name>`."""
    stats, counted = all_stats(), {}
    for role, root in roots.items():
        for pid in (root, *descendants(root, stats)):
            if stat := stats.get(pid):
                own_role = role if pid == root else f"{role} › {stat.name}"
                counted[pid, stat.started] = _counted(own_role, pid, stat)
    return counted


def spent(before: Sample, last_seen: Sample, alive: Iterable[Key]) -> dict[str, Spent]:
    """By role, from `before` until the end. `last_seen` has each process as it was counted last.

    Processor time that parents have taken over from ended children, and that no sample has seen, counts for
    `ENDED`.
    """
    roles: dict[str, Spent] = defaultdict(Spent)
    unseen = 0.0
    for key, last in last_seen.items():
        first = before.get(key, Counted(last.role, 0.0))
        role = roles[last.role]
        role.cpu_sec += last.own_sec - first.own_sec
        role.voluntary += max(0, last.voluntary - first.voluntary)
        role.forced += max(0, last.forced - first.forced)
        unseen += last.reaped_sec - first.reaped_sec
    ended = last_seen.keys() - set(alive)
    unseen -= sum(last_seen[key].own_sec + last_seen[key].reaped_sec for key in ended)
    if unseen > 1 / TICKS:
        roles[ENDED].cpu_sec += unseen
    return dict(roles)


@dataclass
class Watch:
    """Counts what the processes below `roots` use while the block runs.

    `others_cores` is what processes used that belong neither to them nor to this one.
    """

    roots: Mapping[str, int]
    roles: dict[str, Spent] = field(default_factory=dict)
    seconds: float = 0.0
    client_sec: float = 0.0
    others_cores: float = 0.0

    @property
    def cpu_sec(self) -> float:
        return sum(role.cpu_sec for role in self.roles.values())

    def __enter__(self) -> Self:
        self._before = self._last = sample(self.roots)
        self._stop = threading.Event()
        self._sampler = threading.Thread(target=self._keep_sampling, daemon=True)
        self._sampler.start()
        self._busy, self._client, self._begun = busy_sec(), time.process_time(), time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.seconds = time.perf_counter() - self._begun
        self.client_sec = time.process_time() - self._client
        self._stop.set()
        self._sampler.join()
        alive = sample(self.roots)
        self.roles = spent(self._before, self._last | alive, alive)
        others = busy_sec() - self._busy - self.cpu_sec - self.client_sec
        self.others_cores = max(0.0, others) / max(self.seconds, 1e-6)

    def _keep_sampling(self) -> None:
        while not self._stop.wait(SAMPLE_SEC):
            self._last = self._last | sample(self.roots)


def _counted(role: str, pid: int, stat: Stat) -> Counted:
    switches = [parse_switches(_read(task / "status")) for task in _tasks(pid)]
    voluntary, forced = (sum(numbers) for numbers in zip(Switches(0, 0), *switches, strict=True))
    return Counted(role, stat.own_sec, stat.reaped_sec, voluntary, forced)


def _tasks(pid: int) -> Iterator[Path]:
    try:
        yield from (PROC / str(pid) / "task").iterdir()
    except OSError:
        return


def _read(path: Path) -> str:
    """Empty if the process has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""
