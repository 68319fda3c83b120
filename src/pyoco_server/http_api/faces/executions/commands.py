"""The commands of this face: for each path its name, its body and the command of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pyoco_server.http_api.faces.executions import requests as r
from pyoco_server.lifecycle import commands as c
from pyoco_server.lifecycle.commit_meta import ActorKind


class CommandForm(NamedTuple):
    """`build`: makes the command of the core from the caller's id, the node and the body."""

    name: str
    path: str
    body: type[msgspec.Struct]
    build: Callable[[str | None, str, Any], c.Command]
    actor: ActorKind = ActorKind.USER

    @property
    def is_of_node(self) -> bool:
        return "{nodeId}" in self.path


_NODE = "/executions/{executionId}/nodes/{nodeId}"


def _resume(by: str | None, node: str, body: r.ResumeNode) -> c.Command:
    return c.ResumeTask(
        task=node,
        wait_key=body.resumeKey,
        payload=body.payload,
        by=by,
        rejected=body.decision == "reject",
        comment=body.comment,
    )


# Nodes are executed by an external program. Executions are started, stopped and answered by users.
FORMS = (
    CommandForm("StartExecution", "/executions/{executionId}/start", r.Nothing, lambda *_: c.StartRun()),
    CommandForm(
        "CancelExecution",
        "/executions/{executionId}/cancel",
        r.CancelExecution,
        lambda by, _, body: c.CancelRun(by=by, reason=body.reason),
    ),
    CommandForm(
        "ArchiveExecution",
        "/executions/{executionId}/archive",
        r.Nothing,
        lambda by, *_: c.ArchiveRun(by=by),
    ),
    CommandForm(
        "StartNode",
        f"{_NODE}/start",
        r.StartNode,
        lambda _, node, body: c.TakeTask(task=node, attempt=body.attempt, worker_id=body.workerId),
        ActorKind.EXTERNAL,
    ),
    CommandForm(
        "ReportNodeProgress",
        f"{_NODE}/progress",
        r.ReportNodeProgress,
        lambda _, node, body: c.ReportProgress(task=node, progress=body.progress, message=body.message),
        ActorKind.EXTERNAL,
    ),
    CommandForm(
        "PutNodeWaiting",
        f"{_NODE}/wait",
        r.PutNodeWaiting,
        lambda _, node, body: c.PutWaiting(task=node, wait_key=body.waitKey, prompt=body.prompt),
        ActorKind.EXTERNAL,
    ),
    CommandForm("ResumeNode", f"{_NODE}/resume", r.ResumeNode, _resume),
    CommandForm(
        "SucceedNode",
        f"{_NODE}/success",
        r.SucceedNode,
        lambda _, node, body: c.SucceedClientTask(task=node, output=body.output),
        ActorKind.EXTERNAL,
    ),
    CommandForm(
        "FailNode",
        f"{_NODE}/fail",
        r.FailNode,
        lambda _, node, body: c.FailClientTask(task=node, code=body.error.code, message=body.error.message),
        ActorKind.EXTERNAL,
    ),
)
