"""Text into a checked tree. Owns which operators exist, and how large an expression may be.

`$ctx.…` and `$env.…` become calls of `_ctx` and `_env`, as pyoco writes them. No other name, call, attribute
or subscript is accepted.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from pyoco_server.expressions.paths import PathError, check_path

CHARS_MAX = 4096  # of any expression; an expression in a flow.yaml has a smaller limit
PARTS_MAX = 500
DEPTH_MAX = 64
PARSED_KEPT = 256  # a loop evaluates the same few expressions again and again

SETTINGS_PREFIX = "PYOCO_"

SETTING_REFUSED = (
    "Variables that begin with PYOCO_ are the server's own, not for flows; PYOCO_FLOW_ENV cannot open them."
)

_REFERENCE = re.compile(r"\$(ctx|env)\.([A-Za-z_][\w.]*)")
_READERS = {"_ctx": "ctx", "_env": "env"}
_CONSTANTS = (str, bytes, int, float, bool, type(None))
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.And, ast.Or, ast.Not,
    ast.Eq, ast.NotEq, ast.Gt, ast.GtE, ast.Lt, ast.LtE, ast.In, ast.NotIn,
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Mod, ast.Pow, ast.USub, ast.UAdd,
    ast.Constant, ast.Name, ast.Load, ast.Call,
)  # fmt: skip


class ExpressionError(ValueError):
    """The message says what is wrong with the text."""


class PathReference(NamedTuple):
    root: str  # ctx or env
    path: str


def is_setting(name: str) -> bool:
    """Whether a variable is a setting of the server. Settings are case-insensitive."""
    return name.upper().startswith(SETTINGS_PREFIX)


@lru_cache(maxsize=PARSED_KEPT)
def parse(source: str) -> ast.expr:
    """Raises ExpressionError, and nothing else, for any text."""
    if len(source) > CHARS_MAX:
        raise ExpressionError(f"The expression has more than {CHARS_MAX} characters.")
    folded = unicodedata.normalize("NFKC", source)  # as Python reads names
    if "_ctx" in folded or "_env" in folded:
        raise ExpressionError("pyoco accepts no name with _ctx or _env in an expression; rename it.")
    bare = _REFERENCE.sub(lambda found: f"_{found[1]}('{found[2]}')", source.strip())
    if "$" in bare:
        raise ExpressionError("Values of the run are written $ctx.name or $env.NAME.")
    try:
        tree = ast.parse(bare, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ExpressionError("The expression cannot be read; check operators and brackets.") from error
    _check_size(tree)
    for node in ast.walk(tree):
        _check_part(node)
    return tree


def reference_of(call: ast.Call) -> PathReference:
    """The reference of a call in a checked tree."""
    assert isinstance(call.func, ast.Name)
    assert isinstance(call.args[0], ast.Constant)
    return PathReference(_READERS[call.func.id], str(call.args[0].value))


def environment_names(source: str) -> Iterator[str]:
    """The environment variables that an expression reads."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Call) and (reference := reference_of(node)).root == "env":
            yield reference.path


def _check_size(tree: ast.expr) -> None:
    """Level by level, without recursion: the tree may be deep."""
    level: list[ast.AST] = [tree]
    parts = depth = 0
    while level:
        parts, depth = parts + len(level), depth + 1
        if parts > PARTS_MAX or depth > DEPTH_MAX:
            raise ExpressionError("The expression has too many parts; compute it in a task.")
        level = [child for node in level for child in ast.iter_child_nodes(node)]


def _check_part(node: ast.AST) -> None:
    if not isinstance(node, _ALLOWED):
        kind = type(node).__name__.lower()
        raise ExpressionError(f"Only values, constants and operators are accepted, no {kind}.")
    if isinstance(node, ast.Constant) and type(node.value) not in _CONSTANTS:
        raise ExpressionError(f"A constant is text or a number, no {type(node.value).__name__}.")
    if isinstance(node, ast.Name) and node.id not in _READERS:
        raise ExpressionError("A bare name means nothing here; write $ctx.name, or put a text in quotes.")
    if isinstance(node, ast.Call):
        _check_call(node)


def _check_call(call: ast.Call) -> None:
    match call:
        case ast.Call(func=ast.Name(id=reader), args=[ast.Constant(value=str() as path)], keywords=[]) if (
            reader in _READERS
        ):
            check_reference(_READERS[reader], path)
        case _:
            raise ExpressionError("Nothing can be called in an expression; compute it in a task.")


def check_reference(root: str, path: str) -> None:
    if root == "env" and is_setting(path):
        raise ExpressionError(SETTING_REFUSED)
    try:
        check_path(path)
    except PathError as error:
        raise ExpressionError(str(error)) from error
