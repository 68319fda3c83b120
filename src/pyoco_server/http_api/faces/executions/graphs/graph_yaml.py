"""Parses the YAML of a graph into a plain value and the place of each part, with the rules of `flow.yaml`."""

from __future__ import annotations

from typing import Any

from pyoco_server.errors import Invalid
from pyoco_server.workflow_yaml.lines import Lines
from pyoco_server.workflow_yaml.problems import Problems, WorkflowYamlValidationError
from pyoco_server.workflow_yaml.reading import Entries, Items, Node, decoded, plain, read

# As many as a thousand nodes with all their members have. The size of the body limits the rest.
VALUES_MAX = 200_000

Path = tuple[str | int, ...]
Places = dict[Path, tuple[int, int]]


def read_yaml(raw: bytes) -> tuple[Any, Places]:
    problems = Problems()
    try:
        text = decoded(raw, problems)
        root = read(text, Lines(text), problems, nodes_max=VALUES_MAX)
        if problems.found:
            raise problems.error()
    except WorkflowYamlValidationError as error:
        raise _invalid(error) from None
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


def _invalid(error: WorkflowYamlValidationError) -> Invalid:
    details = [
        {
            "loc": ["body"],
            "msg": one.msg,
            "type": one.type,
            "line": one.place.line,
            "column": one.place.column,
        }
        for one in error.problems
    ]
    first = error.problems[0]
    where = f"line {first.place.line}, column {first.place.column}"
    return Invalid(f"The graph is not valid: {where}: {first.msg}", details=details)
