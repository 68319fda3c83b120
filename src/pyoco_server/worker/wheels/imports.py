"""Change the edition that this process imports from: for a worker that runs flows in its own threads."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

from pyoco_server.engine.tasks.failure import try_call


def swap_edition(old: Path | None, new: Path | None) -> None:
    """Put the new edition first on the path, and remove modules that were imported from the old one.

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


def _places(module: ModuleType | None) -> list[str]:
    """Its file, or the folders of a package without one. Attributes of a lazy module may raise."""
    file = getattr(module, "__file__", None)
    entries: list[object] = try_call(lambda: list(getattr(module, "__path__", ())), on_error=lambda _: [])
    return [place for place in (file, *entries) if isinstance(place, str)]
