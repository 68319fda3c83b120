"""Change the edition that this very process imports from: for a worker that runs flows in its own threads."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


def swap_edition(old: Path | None, new: Path | None) -> None:
    """Put the new one first on the path, and forget what was imported from the old one.

    References to modules and functions of the old edition stay valid; the next import finds the new one.
    """
    if old is not None:
        sys.path[:] = [entry for entry in sys.path if entry != str(old)]
        for name in [name for name, module in sys.modules.items() if _is_from(module, old)]:
            del sys.modules[name]
    if new is not None:
        sys.path.insert(0, str(new))
    importlib.invalidate_caches()


def _is_from(module: ModuleType | None, folder: Path) -> bool:
    return any(Path(place).is_relative_to(folder) for place in _places(module))


def _places(module: ModuleType | None) -> Iterator[str]:
    """Its file, or the folders of a package without one. Some modules have strange things there."""
    file = getattr(module, "__file__", None)
    if isinstance(file, str):
        yield file
    try:
        yield from (entry for entry in getattr(module, "__path__", ()) if isinstance(entry, str))
    except Exception:  # user code: reading an attribute of a lazy module may raise anything
        return
