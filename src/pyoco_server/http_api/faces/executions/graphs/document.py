"""Parses a graph from JSON or YAML into valid tasks, or lists every problem with its node.

Parsing gives a plain value and, for YAML, the place of each part; YAML has the rules of `flow.yaml`. Each
node is checked alone; the core checks the graph as a whole. Unknown members are refused, because a version
cannot be changed later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from pyoco_server import canonical_json
from pyoco_server.errors import ErrorDetail, Invalid, problem_at
from pyoco_server.http_api.faces.executions.requests import locate, shown
from pyoco_server.json_value import JsonObject, JsonValue
from pyoco_server.lifecycle.graph import TASKS_MAX, Graph, GraphTask, RetryPolicy, TaskKind, graph_problems
from pyoco_server.workflow_yaml.problems import Lines, Problems, WorkflowYamlValidationError
from pyoco_server.workflow_yaml.reading import Entries, Items, Node, decoded, plain, read

PROBLEMS_MAX = 20
# As many as a thousand nodes with all their members have. The size of the body limits the rest.
VALUES_MAX = 200_000
GRAPH_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")

# Members of our answers that are ignored, so that an answer can be edited and sent back.
_IGNORED = frozenset({"version", "createdAt", "digest"})
_MEMBERS = frozenset({"graphId", "nodes"}) | _IGNORED
_NODE_MEMBERS = GraphTask.__struct_fields__
_RETRY_MEMBERS = RetryPolicy.__struct_fields__

Path = tuple[str | int, ...]
Places = dict[Path, tuple[int, int]]


class DocumentProblem(NamedTuple):
    path: Path
    message: str
    node: str | None = None


def graph_tasks(raw: bytes, *, graph_id: str, is_yaml: bool) -> tuple[GraphTask, ...]:
    """Raises Invalid with every problem that was found."""
    value, places = _read_yaml(raw) if is_yaml else (_read_json(raw), {})
    problems = list(_outer_problems(value, graph_id))
    if problems:
        raise _invalid(problems, places)
    assert isinstance(value, dict)
    nodes: list[GraphTask] = []
    problems = list(_node_problems(value["nodes"], nodes)) or list(_graph_problems(graph_id, nodes))
    if problems:
        raise _invalid(problems, places)
    return tuple(nodes)


def _read_json(raw: bytes) -> JsonValue:
    try:
        return canonical_json.parse(raw)
    except canonical_json.CanonicalJsonError as error:
        raise _invalid([DocumentProblem((), f"it is not strict JSON: {error}.")], {}) from None


def _read_yaml(raw: bytes) -> tuple[JsonValue, Places]:
    problems = Problems()
    try:
        text = decoded(raw, problems)
        root = read(text, Lines(text), problems, nodes_max=VALUES_MAX)
        if problems.found:
            raise problems.error()
    except WorkflowYamlValidationError as error:
        raise _invalid_yaml(error) from None
    if root is None:
        return None, {}
    return plain(root), _places(root)


def _places(root: Node) -> Places:
    places: Places = {}
    waiting: list[tuple[Path, Node]] = [((), root)]
    while waiting:
        path, node = waiting.pop()
        places[path] = (node.place.line, node.place.column)
        match node:
            case Items():
                waiting += [((*path, index), inner) for index, inner in enumerate(node.nodes)]
            case Entries():
                waiting += [((*path, key), entry.node) for key, entry in node.by_key.items()]
            case _:
                pass
    return places


def _invalid_yaml(error: WorkflowYamlValidationError) -> Invalid:
    details = [
        problem_at(["body"], one.msg, one.type) | {"line": one.place.line, "column": one.place.column}
        for one in error.problems
    ]
    first = error.problems[0]
    where = f"line {first.place.line}, column {first.place.column}"
    return Invalid(f"The graph is not valid: {where}: {first.msg}", details=details)


def _outer_problems(value: JsonValue, graph_id: str) -> Iterator[DocumentProblem]:
    if not isinstance(value, dict):
        yield DocumentProblem((), 'a graph is an object like {"nodes": [{"id": "first"}]}.')
        return
    for name in (name for name in value if name not in _MEMBERS):
        yield DocumentProblem((name,), "a graph has no such member; it has nodes.")
    if value.get("graphId", graph_id) != graph_id:
        yield DocumentProblem(("graphId",), "it is another one than in the address; leave it out.")
    nodes = value.get("nodes")
    if not isinstance(nodes, list) or not 1 <= len(nodes) <= TASKS_MAX:
        yield DocumentProblem(("nodes",), f"it must be a list of 1 to {TASKS_MAX} nodes.")


def _node_problems(written: list[object], nodes: list[GraphTask]) -> Iterator[DocumentProblem]:
    """Fills `nodes` with those that could be parsed."""
    for index, one in enumerate(written):
        name = _name_of(one)
        problems = list(_member_problems(one))
        try:
            node = msgspec.convert(one, GraphTask)
        except msgspec.ValidationError as error:
            problems = problems or [_explained(error)]
        else:
            nodes.append(node)
            problems += _without_meaning(node, one) if isinstance(one, dict) else ()
        yield from (DocumentProblem(("nodes", index, *path), message, name) for path, message in problems)


def _member_problems(one: object) -> Iterator[tuple[Path, str]]:
    if not isinstance(one, dict):
        return
    for member in (name for name in one if name not in _NODE_MEMBERS):
        yield (member,), f"a node has no such member; it has {', '.join(_NODE_MEMBERS)}."
    retry = one.get("retry")
    for member in (name for name in retry if name not in _RETRY_MEMBERS) if isinstance(retry, dict) else ():
        yield ("retry", member), f"a retry has no such member; it has {', '.join(_RETRY_MEMBERS)}."


def _without_meaning(node: GraphTask, one: JsonObject) -> Iterator[tuple[Path, str]]:
    """Valid members without an effect here. Ignoring them would look as if they had one."""
    if node.type is TaskKind.WAIT:
        if "retry" in one:
            yield ("retry",), "a wait is not tried again; remove it."
        if "timeout_sec" in one:
            yield ("timeout_sec",), "a wait is never RUNNING; write wait_timeout_sec instead."
    if "on_timeout" in one and node.wait_timeout_sec is None:
        yield ("on_timeout",), "it means nothing without wait_timeout_sec."


def _graph_problems(graph_id: str, nodes: Sequence[GraphTask]) -> Iterator[DocumentProblem]:
    last_place = {node.id: index for index, node in enumerate(nodes)}
    for found in graph_problems(Graph(id=graph_id, version=1, nodes=tuple(nodes))):
        path: Path = ("nodes",) if found.task is None else ("nodes", last_place[found.task])
        yield DocumentProblem(path, found.message, found.task)


def _explained(error: msgspec.ValidationError) -> tuple[Path, str]:
    steps, message = locate(error)
    return tuple(int(step) if step.isdigit() else step for step in steps), f"{message}."


def _invalid(problems: Sequence[DocumentProblem], places: Places) -> Invalid:
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    details = [_detail(problem, places) for problem in problems[:PROBLEMS_MAX]]
    return Invalid(f"The graph is not valid: {_sentence(problems[0])}{more}", details=details)


def _sentence(problem: DocumentProblem) -> str:
    where = _dotted(problem.path)
    named = f"node {shown(problem.node)}" if problem.node is not None else ""
    before = ", ".join(part for part in (named, where) if part)
    return f"{before}: {problem.message}" if before else problem.message


def _detail(problem: DocumentProblem, places: Places) -> ErrorDetail:
    detail = problem_at(["body", *problem.path], problem.message)
    if problem.node is not None:
        detail["nodeId"] = shown(problem.node)
    outward = (problem.path[:length] for length in range(len(problem.path), -1, -1))
    place = next((places[path] for path in outward if path in places), None)
    if place is not None:
        detail["line"], detail["column"] = place
    return detail


def _dotted(path: Path) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{shown(step)}" for step in path)
    return "".join(steps).removeprefix(".")


def _name_of(one: object) -> str | None:
    name = one.get("id") if isinstance(one, dict) else None
    return name if isinstance(name, str) and name else None
