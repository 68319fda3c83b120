"""What the code that executes a claimed run is told about it: earlier attempts, failures, waits. Pure."""

from __future__ import annotations

from pyoco_server.lifecycle.events import RunSubmitted
from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import TaskStatus
from pyoco_server.worker.recording.listener import Numbering


def numbering_of(run: Run) -> Numbering:
    return Numbering(
        run.fence, {name: record.attempt for name, record in run.tasks.items() if record.attempt}
    )


def recorded_failures(run: Run) -> dict[str, str]:
    return {
        name: record.error or "" for name, record in run.tasks.items() if record.state is TaskStatus.FAILED
    }


def awaited(run: Run) -> tuple[str, ...]:
    """The waits that the run has reached, answered or not."""
    return tuple(name for name, record in run.tasks.items() if record.waited_since is not None)


def metadata_of(submission: RunSubmitted, fence: int) -> dict[str, object]:
    """For flows: `ctx.run_context.metadata`."""
    described: dict[str, object] = {
        "fence": fence,
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
