"""Calls about tasks that wait for an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyoco_server.http_client.calls import execution_key, given, path_of
from pyoco_server.http_client.script import ApiRequest, Emit, Script, Stream, ask

if TYPE_CHECKING:
    from pyoco_server.http_client.answers import (
        ApprovalAnswer,
        ApprovalHistoryAnswer,
        ApprovalPageAnswer,
        CommandAnswer,
    )


def list_approvals(*, limit: int | None = None, cursor: str | None = None) -> Script[ApprovalPageAnswer]:
    """`{"items", "next_cursor"}`: the tasks that wait for an answer, the longest waiting first."""
    return ask(ApiRequest("GET", "/approvals", given(limit=limit, cursor=cursor)))


def list_approval_history(
    *, limit: int | None = None, cursor: str | None = None
) -> Script[ApprovalHistoryAnswer]:
    """`{"items", "next_cursor"}`: the answers that were given, the latest first."""
    return ask(ApiRequest("GET", "/approvals/history", given(limit=limit, cursor=cursor)))


def each_approval(*, page_size: int = 100) -> Stream[ApprovalAnswer]:
    """Every task that waits for an answer, the longest waiting first."""
    cursor: str | None = None
    while True:
        page = yield from list_approvals(limit=page_size, cursor=cursor)
        for item in page["items"]:
            yield Emit(item)
        cursor = page["next_cursor"]
        if cursor is None:
            return


def resume_task(
    run_id: str,
    task: str,
    *,
    wait_key: str | None = None,
    payload: object = None,
    decision: str | None = None,
    comment: str | None = None,
    idempotency_key: str | None = None,
) -> Script[CommandAnswer]:
    """Answer a task that waits. `decision`: `approve` or `reject`; `wait_key` defaults to the task.

    After a lost response, send the answer again with the same `idempotency_key`: it is applied once.
    """
    path = path_of("executions", run_id, "nodes", task, "resume")
    body: dict[str, object] = {"resumeKey": task if wait_key is None else wait_key}
    body |= given(payload=payload, decision=decision, comment=comment)
    return ask(ApiRequest("POST", path, json=body, headers=execution_key(idempotency_key)))


def approve(
    run_id: str,
    task: str,
    payload: object = None,
    *,
    comment: str | None = None,
    wait_key: str | None = None,
    idempotency_key: str | None = None,
) -> Script[CommandAnswer]:
    """Approve a task that waits; `payload` becomes its result."""
    return resume_task(
        run_id,
        task,
        payload=payload,
        decision="approve",
        comment=comment,
        wait_key=wait_key,
        idempotency_key=idempotency_key,
    )


def reject(
    run_id: str,
    task: str,
    comment: str | None = None,
    *,
    wait_key: str | None = None,
    idempotency_key: str | None = None,
) -> Script[CommandAnswer]:
    """Reject a task that waits: it fails, and `comment` is its error."""
    return resume_task(
        run_id,
        task,
        decision="reject",
        comment=comment,
        wait_key=wait_key,
        idempotency_key=idempotency_key,
    )
