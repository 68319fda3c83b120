"""`use: name` in a workflow: tasks that installed packages register under pyoco's entry points.

pyoco's own loader finds them, also in the modules of PYOCO_DISCOVERY_MODULES. All runs of the process share
these tasks, so callers make a copy.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pyoco.core.models import Task
from pyoco.discovery.loader import TaskLoader

from pyoco_server.worker.attempt.reasons import CodeMissing

TROUBLES_SHOWN_MAX = 3
TROUBLE_CHARS_MAX = 200


class Plugins:
    """Loaded at the first use: most runs use none."""

    def __init__(self) -> None:
        self._loader: Any = None

    def get(self, name: str) -> Task:
        """The registered task: copy it before you change it. Raises CodeMissing."""
        if self._loader is None:
            loader: Any = TaskLoader(SimpleNamespace(tasks={}))
            loader.load()
            self._loader = loader
        found = self._loader.tasks.get(name)
        if not isinstance(found, Task):
            raise CodeMissing(
                f"No plug-in on this worker registers a task '{name}'; install the package that does"
                f"{self._troubles()}."
            )
        return found

    def _troubles(self) -> str:
        """Plug-ins that could not be loaded: one of them may have the task."""
        failed = [report for report in self._loader.plugin_reports if report.get("error")]
        shown = [f"{one['name']}: {one['error']}"[:TROUBLE_CHARS_MAX] for one in failed[:TROUBLES_SHOWN_MAX]]
        return f" (not loaded: {'; '.join(shown)})" if shown else ""
