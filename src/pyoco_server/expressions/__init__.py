"""Expressions of flows (`$ctx.results.count > 2`): their grammar and their evaluation.

    grammar      text into a checked tree: which operators exist, and how large an expression may be
    paths        `$ctx.a.b`: through mappings, lists and nothing else
    operators    what each operator does, within limits, and which values it accepts
    evaluate     a tree and the data of a run into a value

The notation is pyoco's. The evaluation is our own: an expression may come over the network, so it neither
reads attributes of Python objects nor calls their methods, and its cost is bounded.
"""

from pyoco_server.expressions.evaluate import evaluate
from pyoco_server.expressions.grammar import (
    ExpressionError,
    check_reference,
    environment_names,
    is_setting,
    parse,
)
from pyoco_server.expressions.paths import NotThere, PathError, walk

__all__ = [
    "ExpressionError",
    "NotThere",
    "PathError",
    "check_reference",
    "environment_names",
    "evaluate",
    "is_setting",
    "parse",
    "walk",
]
