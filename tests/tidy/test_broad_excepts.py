"""Broad catches: each says why on its line, and those that do not raise again are counted by file.

`except BaseException: …; raise` cleans up and hides nothing. A catch that ends an error is for user code, for
the boundary of a process or request, and for supervision. The numbers may only become smaller.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import PACKAGE, dotted, expect_none, named, parsed, python_files

BROAD = frozenset({"Exception", "BaseException"})
# With those that raise again.
BROAD_CATCHES_MAX = 9
# What a task, a flow or a wheel of a user does: it may raise anything.
USER_CODE = {
    "engine/tasks/attempt.py": 1,
    "engine/tasks/failure.py": 1,
    "log_lines.py": 1,
    "worker/slots/capture.py": 1,
    "worker/slots/slot_run.py": 1,
}
# Where nothing outside would report the error: a process, a request, the reader of a connection.
BOUNDARIES = {
    "http_api/faces/recheck/middleware.py": 1,
    "http_api/middleware/guard.py": 1,
    "jetstream/client.py": 1,
}
# One that fails keeps none of the others from their turn; the error is logged and counted. It is a context
# manager: an `__exit__` that returns True ends an error as a catch does.
SUPERVISION = {
    "supervision/steps.py": 1,
}


def test_a_broad_catch_says_why() -> None:
    expect_none(
        f"{named(path)}:{node.lineno} has no reason"
        for path, node in _broad_catches()
        if "#" not in _lines(path, node.lineno, node.body[0].lineno)
    )


def test_the_broad_catches_that_end_an_error_are_known() -> None:
    found = Counter(_place(path) for path, node in _broad_catches() if not _raises_again(node))
    assert found == Counter(USER_CODE) + Counter(BOUNDARIES)


def test_the_context_managers_that_end_an_error_are_known() -> None:
    found = Counter(
        _place(path)
        for path in python_files(PACKAGE)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name in ("__exit__", "__aexit__")
        and _may_return_true(node)
    )
    assert found == Counter(SUPERVISION)


def test_there_are_few_broad_catches() -> None:
    found = [f"{named(path)}:{node.lineno}" for path, node in _broad_catches()]
    assert len(found) <= BROAD_CATCHES_MAX, found


def test_no_broad_suppress() -> None:
    expect_none(
        f"{named(path)}:{node.lineno}"
        for path in python_files(PACKAGE)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and dotted(node.func).endswith("suppress")
        and any(dotted(kind) in BROAD for kind in node.args)
    )


def _broad_catches() -> Iterator[tuple[Path, ast.ExceptHandler]]:
    for path in python_files(PACKAGE):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ExceptHandler) and _is_broad(node):
                yield path, node


def _is_broad(node: ast.ExceptHandler) -> bool:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return any(kind is None or dotted(kind) in BROAD for kind in kinds)


def _raises_again(node: ast.ExceptHandler) -> bool:
    """Always, not under a condition: the same error, or one of ours that has it as its cause."""
    return any(isinstance(inner, ast.Raise) for inner in node.body)


def _may_return_true(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    returned = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Return)]
    return any(
        value is not None and not (isinstance(value, ast.Constant) and not value.value) for value in returned
    )


def _lines(path: Path, first: int, last: int) -> str:
    return "\n".join(path.read_text(encoding="utf-8").splitlines()[first - 1 : last])


def _place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()
