"""Who executes a claimed run: threads of this process, or a slot. And what may be done to it meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Protocol

from pyoco_server.lifecycle.commands import CompleteRun, FailRun, ParkRun, ReportLoss
from pyoco_server.worker.attempt.claim import Claimed
from pyoco_server.worker.attempt.monitor import AttemptMonitor
from pyoco_server.worker.recording.recorder import Recorder

# What is committed when it is over: an end of the run, or of our hold on it.
Ending = CompleteRun | FailRun | ParkRun | ReportLoss


class NotNow(Exception):
    """Runs are being executed that would notice. Ask again between two of them."""


class Performer(Protocol):
    async def perform(self, claimed: Claimed, recorder: Recorder, monitor: AttemptMonitor) -> Ending: ...

    async def start(self, path: Path | None = None) -> None:
        """With `path`, an edition of wheels, first on the path of imports."""

    async def renew(self, path: Path | None = None) -> None:
        """Load everything again for the next runs, from another edition if one is given.

        Raises NotNow, or what went wrong in loading: what was loaded before then stays in use.
        """

    @property
    def problem(self) -> str | None:
        """Why it can execute nothing now; no runs are taken then."""

    def on_change(self, act: Callable[[], None]) -> None:
        """Call this when `problem` has changed."""

    @property
    def paths_in_use(self) -> AbstractSet[Path]:
        """Editions that a current or later run may import from."""

    @property
    def flows(self) -> dict[str, str]:
        """The flows that the resolver lists, with a sentence each; empty if it lists none."""

    @property
    def flow_params(self) -> dict[str, list[dict[str, Any]]]:
        """What these may be given, as far as it could be looked at."""

    async def hand_back(self) -> None:
        """Stop what runs; where that is possible, `perform` then gives the run back."""

    async def close(self) -> None: ...


def metadata_of(claimed: Claimed) -> dict[str, Any]:
    """What a flow finds in `ctx.run_context.metadata`."""
    submission = claimed.submission
    described = {
        "fence": claimed.fence,
        "tag": submission.tag,
        "tags": submission.tags,
        "tenant_id": submission.tenant_id,
        "api_key_id": submission.api_key_id,
        "correlation_id": submission.correlation_id,
    }
    if submission.workflow_yaml_sha256 is not None:
        described["workflow_yaml_sha256"] = submission.workflow_yaml_sha256
        described["workflow_yaml_bytes"] = submission.workflow_yaml_bytes
    return described
