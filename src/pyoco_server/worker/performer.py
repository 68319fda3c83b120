"""The interface to what executes a claimed run: threads of this process, or slots."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Protocol

from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.endings import Ending
from pyoco_server.worker.places import Place
from pyoco_server.worker.recording.recorder import Recorder


class NotNow(Exception):
    """Runs are being executed that a change would affect. Try again between two runs."""


class Performer(Protocol):
    async def perform(
        self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor, place: Place
    ) -> Ending: ...

    async def start(self, path: Path | None = None) -> None:
        """`path`: an edition of wheels, to be first on the import path."""

    async def renew(self, path: Path | None = None) -> None:
        """Load everything again for the next runs, from another edition if one is given.

        Raises NotNow, or the error of the loading: what was loaded before stays in use.
        """

    @property
    def problem(self) -> str | None:
        """Why it can execute nothing now; while it is set, no runs are taken."""

    def on_change(self, act: Callable[[], None]) -> None:
        """`act` is called when `problem` has changed."""

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        """Editions that a current or later run may import from."""

    @property
    def flows(self) -> dict[str, str]:
        """The flows that the resolver lists, with a description each; empty if it lists none."""

    @property
    def flow_params(self) -> dict[str, list[dict[str, object]]]:
        """Their parameters, as far as they could be inspected."""

    @property
    def slot_pids(self) -> list[int]:
        """The processes that execute runs; none if that is this process."""

    async def hand_back(self) -> None:
        """Stop the runs in flight, if that is possible: `perform` then hands them back."""

    async def close(self) -> None: ...
