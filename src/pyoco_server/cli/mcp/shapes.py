"""What the tools answer: small values with names that explain themselves. The protocol shows their schema."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True)


class FlowShown(_Shape):
    """A flow that can be started, with its parameters: `name`, `required`, `type`, `default`."""

    name: str
    description: str
    params: list[dict[str, object]]
    tags: list[str]
    has_worker: bool


class FlowsShown(_Shape):
    flows: list[FlowShown]
    left_out: int = 0


class RunLine(_Shape):
    run_id: str
    flow: str
    status: str
    error: str | None = None


class RunsShown(_Shape):
    """`more`: pass it as `cursor` for the next page."""

    runs: list[RunLine]
    more: str | None = None


class RunShown(_Shape):
    """`result`: of a completed run, unless it is large; then `result_note` says where it is."""

    run_id: str
    flow: str
    status: str
    is_over: bool
    error: str | None = None
    tasks: dict[str, str] = {}
    result: object = None
    result_note: str | None = None


class LinesShown(_Shape):
    """`is_complete`: the run has ended, and no further line follows."""

    lines: list[str]
    is_complete: bool
    left_out: int = 0


class WhyShown(_Shape):
    summary: str
    reasons: list[str]


class ApprovalShown(_Shape):
    run_id: str
    task: str
    flow: str
    prompt: dict[str, object]
    deadline_at: float | None


class ApprovalsShown(_Shape):
    approvals: list[ApprovalShown]


class CallerShown(_Shape):
    """For whom the gateway takes this client. Without scopes a key may do everything in its tenant."""

    tenant: str | None
    principal: str | None
    scopes: list[str]
