"""Instants come from `clock.now`, the time of the broker; who reads this machine's clock gives a reason."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.repository import PACKAGE, dotted, expect_none, imported_modules, named, parsed, python_files

WALL_CLOCKS = {
    "time.time", "time.time_ns", "time.localtime", "time.gmtime", "time.strftime", "time.ctime",
    "datetime.now", "datetime.utcnow", "datetime.today", "datetime.datetime.now", "datetime.datetime.utcnow",
    "datetime.datetime.today", "datetime.date.today", "date.today",
}  # fmt: skip

# Which modules read the clock of this machine, and why they may.
MAY = {
    "clock.py": "before the first measurement",
    "api_keys.py": "a default for programs that import `auth` and have no broker",
    "broker/small_files.py": "a text in a file of this machine, for people to read",
    "cli/client/instants.py": "a client has no connection to the broker",
    "cli/admin/examination.py": "compares this clock with the broker's",
    "cli/client/live_view.py": "a client has no connection to the broker",
    "cli/client/tables.py": "a client has no connection to the broker",
    "ids.py": "a part of an id; nothing is decided by it",
    "logging_config.py": "lines of this process's log, compared with those of its machine",
    "operations/identity/authenticate_jwt.py": "tokens are dated elsewhere, and PyJWT reads this clock too",
    "jetstream/broker_clock.py": "compares this clock with the broker's",
    "jetstream/object_info.py": "a member that readers of the object store expect; nothing is decided by it",
    "worker/wheels/folder.py": "compared with times of files of this machine",
}


def test_only_named_modules_read_the_clock_of_this_machine() -> None:
    others = [path for path in python_files(PACKAGE) if path.relative_to(PACKAGE).as_posix() not in MAY]
    expect_none(place for path in others for place in wall_clocks(path))


def test_every_exception_is_still_needed() -> None:
    expect_none(name for name in MAY if not list(wall_clocks(PACKAGE / name)))


def wall_clocks(path: Path) -> Iterator[str]:
    tree = parsed(path)
    imports = [(line, name) for line, name in imported_modules(tree) if name in WALL_CLOCKS]
    uses = [(node.lineno, dotted(node)) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for line, name in imports + uses:
        if name in WALL_CLOCKS:
            yield f"{named(path)}:{line} uses {name}; take `clock.now()` or `clock.elapsed()`"
