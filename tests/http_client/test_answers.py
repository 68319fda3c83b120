"""The types of answers name every member that the gateway sends. The examples are recorded from a gateway."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
import pytest

from pyoco_server.http_api.routing.examples import load
from pyoco_server.http_client import answers as a

JSON = "application/json"
TYPES: dict[tuple[str, str], Any] = {
    ("runs", "submit_run"): a.SubmittedRunAnswer,
    ("runs", "submit_run_yaml"): a.SubmittedRunAnswer,
    ("runs", "retry_run"): a.RetriedRunAnswer,
    ("runs", "get_run"): a.RunAnswer,
    ("runs", "cancel_run"): a.RunAnswer,
    ("runs", "list_runs"): list[a.RunAnswer],
    ("runs", "get_tasks"): a.RunTasksAnswer,
    ("runs", "get_run_graph"): a.RunGraphAnswer,
    ("runs", "get_logs"): a.LogPageAnswer,
    ("runs", "run_stats"): a.RunNumbersAnswer,
    ("operator", "list_workers"): list[a.WorkerAnswer],
    ("operator", "patch_worker"): a.PatchedWorkerAnswer,
    ("operator", "list_tags"): list[a.TagQueueAnswer],
    ("operator", "list_flows"): list[a.FlowAnswer],
    ("operator", "get_caller"): a.CallerAnswer,
    ("operator", "list_wheels"): list[a.WheelAnswer],
    ("operator", "upload_wheel"): a.WheelAnswer,
    ("operator", "list_wheel_history"): list[a.WheelChangeAnswer],
    ("operator", "delete_wheel"): a.DeletedWheelAnswer,
    ("operator", "list_letters"): a.DeadLetterPageAnswer,
    ("operator", "get_letter"): a.DeadLetterAnswer,
    ("operator", "redrive"): a.RedrivenAnswer,
    ("operator", "dismiss"): a.DismissAnswer,
    ("operator", "list_approvals"): a.ApprovalPageAnswer,
    ("operator", "list_approval_history"): a.ApprovalHistoryAnswer,
    ("schedules", "create_schedule"): a.ScheduleAnswer,
    ("schedules", "list_schedules"): list[a.ScheduleAnswer],
    ("schedules", "list_schedule_runs"): list[a.RunAnswer],
    ("schedules", "delete_schedule"): a.DeletedScheduleAnswer,
    ("executions", "CreateExecution"): a.CommandAnswer,
    ("executions", "ResumeNode"): a.CommandAnswer,
    ("executions", "get_execution"): a.ExecutionAnswer,
    ("executions", "list_executions"): a.ExecutionPageAnswer,
    ("executions", "explain_execution"): a.WhyAnswer,
    ("executions", "verify_execution"): a.VerifiedAnswer,
    ("executions", "list_graphs"): a.GraphPageAnswer,
    ("executions", "get_graph"): a.GraphAnswer,
    ("executions", "put_graph"): a.GraphAnswer,
    ("jobs", "create_job"): a.JobAnswer,
    ("jobs", "get_job"): a.JobAnswer,
    ("jobs", "list_jobs"): a.JobPageAnswer,
}


@pytest.mark.parametrize(("tag", "operation"), TYPES)
def test_an_answer_has_the_type_that_the_clients_declare(tag: str, operation: str) -> None:
    answers = load(tag)[operation].answers.items()
    answered = [kinds[JSON] for status, kinds in answers if status.startswith("2") and JSON in kinds]
    for answer in answered:
        msgspec.convert(answer, TYPES[tag, operation])
        assert unnamed(answer, TYPES[tag, operation]) == []
    assert answered


def test_a_member_without_a_name_and_a_member_of_another_type_are_found() -> None:
    page = {"items": [{"run_id": "r", "surprise": 1}], "next_cursor": None}
    assert unnamed(page, a.RunPageAnswer) == ["RunAnswer.surprise"]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"items": [{"run_id": 1}], "next_cursor": None}, a.RunPageAnswer)


def unnamed(value: Any, kind: Any) -> list[str]:
    """The members of the value that its type does not name."""
    if is_typeddict(kind):
        hints = get_type_hints(kind)
        found = [f"{kind.__name__}.{name}" for name in value if name not in hints]
        inner = [unnamed(one, hints[name]) for name, one in value.items() if name in hints]
        return found + [name for names in inner for name in names]
    match get_origin(kind):
        case origin if origin in (Union, UnionType):
            kinds = [one for one in get_args(kind) if one is not NoneType]
            return unnamed(value, kinds[0]) if value is not None and len(kinds) == 1 else []
        case origin if origin is NotRequired:
            return unnamed(value, get_args(kind)[0])
        case origin if origin is list:
            return [name for one in value for name in unnamed(one, get_args(kind)[0])]
        case origin if origin is dict:
            return [name for one in value.values() for name in unnamed(one, get_args(kind)[1])]
        case _:
            return []
