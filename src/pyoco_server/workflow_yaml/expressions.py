"""Expressions of a graph: converted to pyoco's notation and checked.

They are parsed and never evaluated here. The package `expressions` owns the grammar; the worker parses an
expression again before it evaluates it.
"""

from __future__ import annotations

import re

from pyoco_server.expressions import ExpressionError, check_reference, parse

EXPRESSION_CHARS_MAX = 500

_PATH = re.compile(r"[A-Za-z_][\w.]*")
_ROOTS = frozenset({"params", "results", "scratch", "artifacts", "loop", "loops"})


def expression_source(raw: str, *, of_params: bool) -> str:
    """The expression to evaluate. `of_params`: a single word is the name of a parameter.

    Raises ExpressionError.
    """
    inner = raw.strip()
    if inner.startswith("{{") and inner.endswith("}}"):
        inner = inner[2:-2].strip()
    if not inner:
        raise ExpressionError("The expression is empty.")
    if len(inner) > EXPRESSION_CHARS_MAX:
        raise ExpressionError(f"The expression has more than {EXPRESSION_CHARS_MAX} characters.")
    source = inner if "$ctx." in inner or "$env." in inner else _path(inner, of_params=of_params)
    parse(source)
    return source


def check_input(reference: str) -> None:
    """Check an input that is a reference (`$node.read.output.rows`). Raises ExpressionError."""
    root, _, path = reference[1:].partition(".")
    check_reference(root, path)


def _path(path: str, *, of_params: bool) -> str:
    if not _PATH.fullmatch(path):
        raise ExpressionError("Write a name, a path like params.items, or an expression with $ctx. or $env.")
    if path.startswith("env."):
        return f"$env.{path[4:]}"
    if path.startswith("ctx."):
        return f"$ctx.{path[4:]}"
    if path.split(".", 1)[0] in _ROOTS or "." in path or not of_params:
        return f"$ctx.{path}"
    return f"$ctx.params.{path}"
