"""A checked expression and the data of a run into a value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from pyoco_server.expressions.grammar import is_setting, parse, reference_of
from pyoco_server.expressions.operators import binary, unary
from pyoco_server.expressions.paths import NotThere, walk

Environment = Callable[[str], str | None]


def evaluate(source: str, data: Mapping[str, object], environment: Environment) -> object:
    """A single reference returns the value itself, of any type. Raises what the operators raise.

    `environment`: a variable by its name, or None.
    """
    return _Evaluation(data, environment).of(parse(source))


class _Evaluation:
    def __init__(self, data: Mapping[str, object], environment: Environment) -> None:
        self._data = data
        self._environment = environment

    def of(self, node: ast.expr) -> object:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Call():
                return self._referred(node)
            case ast.UnaryOp(op=sign, operand=operand):
                return unary(sign, self.of(operand))
            case ast.BinOp(left=left, op=sign, right=right):
                return binary(sign, self.of(left), self.of(right))
            case ast.BoolOp():
                return self._joined(node)
            case ast.Compare():
                return self._compared(node)
            case _:
                raise AssertionError(f"{type(node).__name__} is refused by the grammar")

    def _joined(self, node: ast.BoolOp) -> object:
        """As in Python: the first value that decides; the rest is not evaluated."""
        decides = isinstance(node.op, ast.Or)
        for part in node.values[:-1]:
            value = self.of(part)
            if bool(value) is decides:
                return value
        return self.of(node.values[-1])

    def _compared(self, node: ast.Compare) -> bool:
        left = self.of(node.left)
        for sign, part in zip(node.ops, node.comparators, strict=True):
            right = self.of(part)
            if not binary(sign, left, right):
                return False
            left = right
        return True

    def _referred(self, call: ast.Call) -> object:
        root, path = reference_of(call)
        if root == "env":
            value = None if is_setting(path) else self._environment(path)
            if value is None:
                raise LookupError(f"$env.{path} not found.")
            return value
        try:
            return walk(self._data, path.split("."))
        except NotThere:
            raise LookupError(f"$ctx.{path} not found.") from None
