"""The errors of this face: their codes, and for a refused command which guard refused and the state."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyoco_server.errors import Conflict, Invalid, NotFound, PyocoError, problem_at
from pyoco_server.http_api.faces.executions import wire
from pyoco_server.http_api.responses.error_table import CODES, STATUSES, ErrorTable, nested, nested_problem
from pyoco_server.json_schema.check import Mismatch, place_of
from pyoco_server.json_value import JsonObject
from pyoco_server.lifecycle.decide import Reason, Refused
from pyoco_server.lifecycle.run import Run
from pyoco_server.operations.executions.graphs import GraphNotFound
from pyoco_server.texts import Language

MESSAGE_CHARS_MAX = 1000


class ExecutionNotFound(NotFound):
    def __init__(self, execution_id: str) -> None:
        super().__init__(
            f"There is no execution {execution_id}. Check the id, or list them: GET /executions."
        )


@contextmanager
def execution_must_exist(execution_id: str) -> Iterator[None]:
    """For operations that raise NotFound for a run."""
    try:
        yield
    except NotFound:
        raise ExecutionNotFound(execution_id) from None


class NodeNotFound(NotFound):
    def __init__(self, node_id: str) -> None:
        super().__init__(f"This execution has no node {node_id}. GET the execution to see its nodes.")


class CommandRejected(Conflict):
    """A guard refused the command. `details`: which guard, and the state of the execution."""


_CODES = CODES | {
    GraphNotFound: "GRAPH_NOT_FOUND",
    ExecutionNotFound: "EXECUTION_NOT_FOUND",
    NodeNotFound: "NODE_NOT_FOUND",
    CommandRejected: "COMMAND_REJECTED",
}
# Why a command is refused: the code of the contract, and the reason as the end of a sentence.
_REASONS: dict[Reason, tuple[str, str]] = {
    Reason.TERMINAL: ("EXECUTION_TERMINAL", "execution is over"),
    Reason.CANCEL_REQUESTED: ("CANCEL_REQUESTED", "execution is cancel-requested"),
    Reason.TASK_STATUS: ("NODE_STATUS", "node is {node_status}"),
    Reason.NOT_WAITING: ("NODE_STATUS", "node is {node_status}"),
    Reason.WAIT_KEY: ("RESUME_KEY", "resumeKey is not the waitKey that the node waits for"),
    Reason.ATTEMPT: ("ATTEMPT", "attempt must be {next_attempt}"),
    Reason.WRONG_DRIVER: ("WRONG_DRIVER", "execution is driven by {driver}s"),
    Reason.NOT_TERMINAL: ("NOT_TERMINAL", "execution is not over; cancel it first"),
}


def rejection(command: str, reason: Reason, run: Run, node_id: str | None) -> CommandRejected:
    word, why = _REASONS[reason]
    record = run.tasks.get(node_id) if node_id is not None else None
    details: JsonObject = {"reason": word, "status": wire.status_of(run)}
    if record is not None:
        details["nodeStatus"] = wire.node_status(record)
    if run.cancel is not None:
        details["cancelRequestedAt"] = wire.instant(run.cancel.at)
    sentence = why.format(
        node_status=details.get("nodeStatus"),
        next_attempt=record.attempt + 1 if record else 1,
        driver=run.driver,
    )
    return CommandRejected(f"{command} rejected because {sentence}", details=details)


def refusal(command: str, refused: Refused, run: Run, node_id: str | None) -> PyocoError:
    """The error of a refused command: invalid if the answer has not the form that the prompt asks for."""
    if refused.reason is Reason.ANSWER:
        return _invalid_answer(refused.problems)
    return rejection(command, refused.reason, run, node_id)


def _invalid_answer(problems: Sequence[Mismatch]) -> Invalid:
    sentences = "; ".join(f"{place_of(('payload', *path))} {message}" for path, message, _ in problems)
    return Invalid(
        f"The payload does not match the answer_schema of the prompt: {sentences}"[:MESSAGE_CHARS_MAX],
        details=[problem_at(["body", "payload", *path], message) for path, message, _ in problems],
    )


def word_of(reason: str) -> str:
    """For a stored refusal, perhaps of another version."""
    return _REASONS[Reason(reason)][0] if reason in _REASONS else reason


def _body(error: PyocoError, language: Language) -> JsonObject:
    return nested(_CODES, error)


TABLE = ErrorTable(STATUSES, _body, nested_problem)
