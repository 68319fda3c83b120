"""`$node.…`, `$ctx.…` and `$env.…`: references in inputs and expressions of a flow, and their values.

The notation and the error texts are pyoco's. Unlike in pyoco, a path goes through mappings and lists, never
through attributes of Python objects, and the server's own settings cannot be read.
"""

from collections.abc import Mapping
from typing import NoReturn

from pyoco.core.context import Context, LoopFrame
from pyoco.core.exceptions import InvalidReferenceError
from pyoco.dsl.expressions import ExpressionEvaluationError

from pyoco_server.engine.tasks.failure import try_call
from pyoco_server.expressions import ExpressionError, NotThere, check_reference, evaluate, walk

LOOP_FIELDS = ("name", "type", "index", "iteration", "count", "item", "condition", "path")


def resolve_reference(ctx: Context, value: object) -> object:
    """The value of an input: what it refers to, or the input itself."""
    if not isinstance(value, str) or not value.startswith("$"):
        return value
    root, _, path = value[1:].partition(".")
    try:
        match root:
            case "node" if "." in value:
                return _of_node(ctx, value, path)
            case "ctx" if "." in value:
                return _of_params(ctx, value, path)
            case "env" if "." in value:
                return _of_environment(ctx, value, path)
    except ExpressionError as refused:
        raise InvalidReferenceError(value, str(refused)) from None
    raise InvalidReferenceError(value, "unknown selector")


def value_of(ctx: Context, source: str) -> object:
    """The value of an expression at this point of the run. Raises ExpressionEvaluationError."""

    def refuse(error: BaseException) -> NoReturn:
        raise ExpressionEvaluationError(f"Failed to evaluate expression '{source}': {error}") from error

    return try_call(_evaluate, ctx, source, on_error=refuse)


def _evaluate(ctx: Context, source: str) -> object:
    return evaluate(source, _data(ctx), lambda name: _variable(ctx, name))


def _of_node(ctx: Context, value: str, path: str) -> object:
    node, *rest = path.split(".")
    if not rest or rest[0] != "output":
        raise InvalidReferenceError(value, "expected '$node.<node>.output[.<field>...]'")
    if not node:
        raise InvalidReferenceError(value, "node name is required after '$node.'")
    check_reference("node", path)
    if node not in ctx.results:
        raise KeyError(f"Node '{node}' result not found in context.")
    try:
        return walk(ctx.results[node], rest[1:])
    except NotThere as missing:
        raise KeyError(f"{value} not found: there is no '{missing}' in a mapping or list.") from None


def _of_params(ctx: Context, value: str, path: str) -> object:
    root, _, key = path.partition(".")
    if root != "params" or "." not in path:
        raise InvalidReferenceError(value, "only '$ctx.params.<key>' is supported")
    if not key:
        raise InvalidReferenceError(value, "parameter key is required after '$ctx.params.'")
    check_reference("ctx", key)
    if key not in ctx.params:
        raise KeyError(f"Param '{key}' not found in context.")
    return ctx.params[key]


def _of_environment(ctx: Context, value: str, name: str) -> str:
    if not name:
        raise InvalidReferenceError(value, "environment key is required after '$env.'")
    check_reference("env", name)
    found = _variable(ctx, name)
    if found is None:
        raise KeyError(f"Environment variable '{name}' not found.")
    return found


def _variable(ctx: Context, name: str) -> str | None:
    # Imported at the first use: the settings would take much of a slot's start time.
    from pyoco_server.config import variable_for_flows

    return ctx.env[name] if name in ctx.env else variable_for_flows(name)


def _data(ctx: Context) -> Mapping[str, object]:
    """pyoco's data for expressions, with loops as mappings of their documented members."""
    loops = [_fields(frame) for frame in ctx.loops]
    return ctx.expression_data() | {"loop": loops[-1] if loops else None, "loops": loops}


def _fields(frame: LoopFrame) -> dict[str, object]:
    return {name: getattr(frame, name) for name in LOOP_FIELDS}
