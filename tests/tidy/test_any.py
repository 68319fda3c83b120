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
    # Members of click and futures of any result; entries of workers as JSON.
    "cli": 9,
    # Options of pydantic: their defaults have any type, and the constructor checks what it gets.
    "config": 6,
    # Members of other libraries that have no types or are replaced.
    "engine": 9,
    # Operands of user expressions.
    "expressions": 16,
    # JSON Schema, the state of uvicorn, and the transport that uvicorn gives.
    "http_api": 10,
    # Decoded JSON, values of the user in it, and what came of a step of a script.
    "http_client": 38,
    # Answers of the broker; members of the NATS client that have no types.
    "jetstream": 5,
    # The modules directly in the package: decoded JSON, and runs as JSON for programs at the broker.
    MODULES: 8,
    # The result of the flow under test, which the test looks into.
    "testing": 4,
    # Results of user code with their types; greenlets and plug-ins, which have no types.
    "worker": 26,
}


# Aliases of today. Remove those that you replace; add none.
ALIASES = {
    "http_api/routing/schemas.py:Schema",
    "http_client/script.py:Script",
    "http_client/script.py:Stream",
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
