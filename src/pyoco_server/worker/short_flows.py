"""Which flows are short, as this worker has measured them. Owns when runs may share a slot. Pure."""

from __future__ import annotations

from collections import OrderedDict, deque
from statistics import median
from typing import NamedTuple

# So many recent runs count, and so many must be known.
RECENT_RUNS = 5
KNOWN_RUNS_MIN = 3
# A flow is short if the code of its runs takes less than this.
SHORT_SEC = 0.005
FLOWS_MAX = 1_000


class FlowKey(NamedTuple):
    """What was measured: one state of the code, for one tenant."""

    edition: int
    tenant: str | None
    name: str
    yaml_sha256: str | None


class CodeTimes(NamedTuple):
    """How long the code of a run was called: in all, and the longest time without a wait."""

    total_sec: float
    longest_sec: float


class Wanted(NamedTuple):
    """What a run needs. `stretch_sec`: how long others wait for it; None: a slot of its own."""

    key: FlowKey
    stretch_sec: float | None


class ShortFlows:
    """Medians, so that one run on a busy machine does not decide."""

    def __init__(self) -> None:
        self._recent: OrderedDict[FlowKey, deque[CodeTimes]] = OrderedDict()
        self._stretch_sec: dict[FlowKey, float] = {}  # only of short flows

    def stretch_sec(self, key: FlowKey) -> float | None:
        """How long other runs in the same slot wait for a run of this flow. None: it is not short."""
        return self._stretch_sec.get(key)

    def note(self, key: FlowKey, times: CodeTimes) -> None:
        """A run has ended, and nothing in it speaks against other runs beside it."""
        recent = self._recent.setdefault(key, deque(maxlen=RECENT_RUNS))
        self._recent.move_to_end(key)
        recent.append(times)
        total_sec = median(times.total_sec for times in recent)
        if len(recent) >= KNOWN_RUNS_MIN and total_sec < SHORT_SEC:
            self._stretch_sec[key] = median(times.longest_sec for times in recent)
        else:
            self._stretch_sec.pop(key, None)
        if len(self._recent) > FLOWS_MAX:
            self.forget(next(iter(self._recent)))

    def forget(self, key: FlowKey) -> None:
        """A run took long, ended its process, or must not have others beside it: measure again."""
        self._recent.pop(key, None)
        self._stretch_sec.pop(key, None)
