"""What a face may import from the store and the read model: values, and nothing that acts.

The other layer rules are in .importlinter, which sees modules and not the names in them.
"""

import dataclasses
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path

from pyoco_server.store.runs.stored_run import StoredRun
from pyoco_server.store.store import Store
from tests.tidy.repository import PACKAGE, expect_none, imported_modules, named, parsed, python_files

STORED = ("pyoco_server.store.", "pyoco_server.read_model.")


def test_a_face_imports_only_values_of_the_store() -> None:
    faces = python_files(PACKAGE / "http_api" / "faces")
    expect_none(place for path in faces for place in _actors(path))


def test_a_frozen_class_is_a_value_and_the_store_is_not() -> None:
    assert is_value(StoredRun)
    assert not is_value(Store)


def _actors(path: Path) -> Iterator[str]:
    for line, name in imported_modules(parsed(path)):
        if name.startswith(STORED) and not _is_importable(name):
            yield f"{named(path)}:{line} imports {name}, which is not a value; call an operation"


def _is_importable(name: str) -> bool:
    module, _, member = name.rpartition(".")
    return member.isupper() or is_value(getattr(import_module(module), member, None))


def is_value(found: object) -> bool:
    """An enumeration, a named tuple, or a class with frozen members."""
    if not isinstance(found, type):
        return False
    if issubclass(found, Enum) or (issubclass(found, tuple) and hasattr(found, "_fields")):
        return True
    if dataclasses.is_dataclass(found):
        return bool(getattr(found, "__dataclass_params__").frozen)  # noqa: B009
    config = getattr(found, "__struct_config__", None)
    return config is not None and bool(config.frozen)
