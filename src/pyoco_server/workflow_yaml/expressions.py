"""Expressions of a graph: put into pyoco's notation, and checked to be nothing but what that allows.

Parsed, never evaluated. Names, attributes, subscripts and calls are refused; what remains are values of the
run (`$ctx.…`, `$env.…`), constants and operators. The rules are pyoco's, which evaluates it later.
"""

from __future__ import annotations

import ast
import re

EXPRESSION_CHARS_MAX = 500
PARTS_MAX = 500

_PATH = re.compile(r"[A-Za-z_][\w.]*")
_REFERENCE = re.compile(r"\$(?:ctx|env)\.[A-Za-z_][\w.]*")
_SECRET = re.compile(r"\$env\.PYOCO_")
_ROOTS = frozenset({"params", "results", "scratch", "artifacts", "loop", "loops"})
_READERS = frozenset({"_ctx", "_env"})  # what pyoco puts in the place of $ctx. and $env.
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.And, ast.Or, ast.Not,
    ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.In, ast.NotIn,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.Pow, ast.USub, ast.UAdd,
    ast.Constant, ast.Name, ast.Load, ast.Call,
)  # fmt: skip


class ExpressionError(Exception):
    """Says what is wrong with it."""


def expression_source(raw: str, *, of_params: bool) -> str:
    """What pyoco evaluates. `of_params`: a single word is the name of a parameter."""
    inner = raw.strip()
    if inner.startswith("{{") and inner.endswith("}}"):
        inner = inner[2:-2].strip()
    if not inner:
        raise ExpressionError("The expression is empty.")
    if len(inner) > EXPRESSION_CHARS_MAX:
        raise ExpressionError(f"The expression has more than {EXPRESSION_CHARS_MAX} characters.")
    source = inner if "$ctx." in inner or "$env." in inner else _path(inner, of_params=of_params)
    _check(source)
    return source


def check_environment_name(reference: str) -> None:
    """Our own settings stand in the environment too, credentials among them."""
    if _SECRET.search(reference):
        raise ExpressionError("Variables that begin with PYOCO_ are the server's own, not for flows.")


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


def _check(source: str) -> None:
    check_environment_name(source)
    if "_ctx" in source or "_env" in source:
        raise ExpressionError("pyoco accepts no name with _ctx or _env in an expression; rename it.")
    bare = _REFERENCE.sub(lambda found: f"_{found[0][1:4]}('{found[0][5:]}')", source)
    if "$" in bare:
        raise ExpressionError("Values of the run are written $ctx.name or $env.NAME.")
    try:
        tree = ast.parse(bare, mode="eval")
        nodes = list(ast.walk(tree))
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError("The expression cannot be read; check operators and brackets.") from error
    if len(nodes) > PARTS_MAX:
        raise ExpressionError("The expression has too many parts; compute it in a task.")
    for node in nodes:
        _check_part(node)


def _check_part(node: ast.AST) -> None:
    if not isinstance(node, _ALLOWED):
        kind = type(node).__name__.lower()
        raise ExpressionError(f"Only values, constants and operators are accepted, no {kind}.")
    if isinstance(node, ast.Name) and node.id not in _READERS:
        raise ExpressionError("A bare name means nothing here; write $ctx.name, or put a text in quotes.")
    if isinstance(node, ast.Call) and not _is_reference(node):
        raise ExpressionError("Nothing can be called in an expression; compute it in a task.")


def _is_reference(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and len(call.args) == 1 and isinstance(call.args[0], ast.Constant)
