"""Uses of `Any`: only where JSON, bytes, user code or an untyped library enters. Counted by package.

A use is an import of `Any` or a place where it is written, also in a quoted annotation. The numbers may only
fall. A value that only passes through is `object`. A value whose members are read gets its type where it is
decoded: a `msgspec.Struct`, a dataclass or a `TypedDict`.

To lower a number: remove uses, run this test, and write the number that it prints. A number that is higher
than the count fails too, so that it is lowered in the same commit.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import PACKAGE, dotted, expect_none, named, parsed, python_files

MODULES = "modules"

USES_MAX = {
    # Text of the operator and answers of the gateway.
    "cli": 75,
    # Settings from the environment and from programs.
    "config": 27,
    # Arguments and results of user code.
    "engine": 84,
    # Operands of user expressions.
    "expressions": 45,
    # Prompts of waits in user code.
    "flows": 7,
    # Request bodies and answers.
    "http_api": 61,
    # Answers of the gateway, and values of the caller.
    "http_client": 172,
    # Answers of the broker; members of the NATS client that have no types.
    "jetstream": 5,
    # The modules directly in the package: JSON, log records.
    MODULES: 53,
    # Params, prompts and results of the flow under test.
    "testing": 10,
    # Values of user code, messages between processes.
    "worker": 123,
    # Nodes of a YAML document.
    "workflow_yaml": 18,
}


# Aliases of today. Remove those that you replace; add none.
ALIASES = {
    "canonical_json.py:Place",
    "cli/client/output.py:JSONDict",
    "cli/client/params.py:Params",
    "cli/settings.py:Settings",
    "http_api/routing/params.py:AnyParam",
    "http_api/routing/schemas.py:Schema",
    "http_client/logs.py:Entry",
    "http_client/script.py:Script",
    "http_client/script.py:Stream",
    "http_client/workers.py:Worker",
    "log_context.py:Fields",
    "log_lines.py:EventDict",
    "worker/flows/params.py:Params",
    "worker/recording/values.py:Types",
}


def test_the_uses_of_any_are_those_of_the_table() -> None:
    found = Counter(_package(path) for path in python_files(PACKAGE) for _ in uses_of_any(parsed(path)))
    expect_none(
        f'"{package}": {found[package]} uses of Any, the table has {USES_MAX.get(package, 0)}'
        for package in sorted(found.keys() | USES_MAX.keys())
        if found[package] != USES_MAX.get(package, 0)
    )


def uses_of_any(tree: ast.AST) -> Iterator[int]:
    """The line of each import and of each use."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in {"typing", "typing_extensions"}:
            yield from (node.lineno for alias in node.names if alias.name == "Any")
        elif isinstance(node, ast.Name | ast.Attribute) and dotted(node) in {"Any", "typing.Any"}:
            yield node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (node.lineno for _ in uses_of_any(_quoted_annotation(node.value)))


def _quoted_annotation(text: str) -> ast.AST:
    """Prose is not an annotation: it does not parse, or has neither a subscript nor this one name."""
    try:
        return ast.parse(text if "[" in text or text == "Any" else "", mode="eval")
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _package(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else MODULES


def _place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def test_no_alias_hides_any() -> None:
    """A use of `Fields` looks typed when `Fields` is `dict[str, Any]`, and is not counted."""
    found = {
        f"{_place(path)}:{name}" for path in python_files(PACKAGE) for name in _aliases_of_any(parsed(path))
    }
    expect_none(f"{place} is an alias of Any, or is no longer one" for place in sorted(found ^ ALIASES))


def _aliases_of_any(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp() as value):
                yield from [name] * any(True for _ in uses_of_any(value))
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
            ):
                yield from [name] * any(True for _ in uses_of_any(value))


def test_any_is_imported_under_its_own_name() -> None:
    expect_none(
        f"{named(path)}:{node.lineno}"
        for path in python_files(PACKAGE)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom)
        and any(alias.name == "Any" and alias.asname for alias in node.names)
    )
