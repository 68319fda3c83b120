"""How a module opens, what it is called, and what it may reach for."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import PACKAGE, dotted, expect_none, imported_modules, named, parsed, python_files

# Names that say nothing about what is inside.
EMPTY_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "base",
    "manager",
    "managers",
    "service",
    "services",
}

ENVIRONMENT_READER = PACKAGE / "config" / "backend.py"
ENVIRONMENT = {"os.environ", "os.environb", "os.getenv", "os.getenvb", "os.putenv", "os.unsetenv"}

# The core takes time, ids and bytes as arguments: these would let it find them by itself.
# (What it may not import of other packages is in .importlinter.)
IMPURE = {
    "asyncio", "concurrent", "datetime", "http", "io", "json", "logging", "multiprocessing", "os", "pathlib",
    "random", "secrets", "selectors", "socket", "ssl", "subprocess", "sys", "tempfile", "threading", "time",
    "urllib", "uuid", "zoneinfo",
}  # fmt: skip


def test_every_module_opens_with_what_it_owns() -> None:
    silent = [path for path in python_files(PACKAGE) if not _says_what_it_owns(path)]
    expect_none(f"{named(path)} needs a docstring that says what it owns" for path in silent)


def _says_what_it_owns(path: Path) -> bool:
    tree = parsed(path)
    is_empty_package = path.name == "__init__.py" and not tree.body
    return is_empty_package or bool(ast.get_docstring(tree))


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {path: {path.stem, *path.relative_to(PACKAGE).parent.parts} for path in python_files(PACKAGE)}
    expect_none(named(path) for path, parts in names.items() if parts & EMPTY_NAMES)


def test_only_the_configuration_reads_the_environment() -> None:
    readers = [path for path in python_files(PACKAGE) if path != ENVIRONMENT_READER]
    expect_none(place for path in readers for place in environment_uses(path))


def environment_uses(path: Path) -> Iterator[str]:
    tree = parsed(path)
    imports = [(line, name) for line, name in imported_modules(tree) if name in ENVIRONMENT]
    uses = [(node.lineno, dotted(node)) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for line, name in imports + uses:
        if name in ENVIRONMENT:
            yield f"{named(path)}:{line} uses {name}; take it from NatsBackendConfig"


def test_the_core_has_no_clock_no_dice_and_no_wires() -> None:
    expect_none(place for path in python_files(PACKAGE / "lifecycle") for place in impurities(path))


def impurities(path: Path) -> Iterator[str]:
    tree = parsed(path)
    for line, name in imported_modules(tree):
        if name.split(".")[0] in IMPURE:
            yield f"{named(path)}:{line} imports {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{named(path)}:{node.lineno} waits"
        elif isinstance(node, ast.Call) and dotted(node.func) in {"open", "print", "input"}:
            yield f"{named(path)}:{node.lineno} calls {dotted(node.func)}"
