"""The `ctx` of tasks: pyoco's Context, with a folder made on demand and a cancel flag that stays set."""

import copy
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import gettempdir
from typing import Self

from pyoco.core.context import Context
from pyoco.core.models import RunContext, RunStatus

from pyoco_server.engine.tasks.failure import Cancelled
from pyoco_server.engine.tasks.references import resolve_reference

CANCELLING = (RunStatus.CANCELLING, RunStatus.CANCELLED)


class ArtifactFolder:
    """A run's folder, made at its first use. A temporary folder is removed at the end if it is empty."""

    def __init__(self, path: Path | None) -> None:
        self._temporary = path is None
        self._path = path
        self._lock = threading.Lock()
        self._made = False

    def path(self) -> str:
        with self._lock:
            path = self._path = self._path or _random_path()
            if not self._made:
                path.mkdir(mode=0o700 if self._temporary else 0o777, parents=True, exist_ok=True)
                self._made = True
        return str(path)

    def close(self) -> None:
        """Afterwards `path` makes no folder: reading the context of an ended run leaves none behind."""
        with self._lock:
            if self._temporary and self._made and self._path is not None:
                with suppress(OSError):  # not empty: the artifacts belong to the user
                    self._path.rmdir()
            self._made = True


def _random_path() -> Path:
    """Not named after the run: other users can write to the temp dir and must not guess the name."""
    return Path(gettempdir()) / f"pyoco-artifacts-{uuid.uuid4().hex}"


class EngineContext(Context):
    """pyoco makes ./artifacts for every Context; this class makes a folder only when a task uses it."""

    def __init__(
        self,
        params: dict[str, object],
        run_context: RunContext,
        folder: ArtifactFolder,
        is_over: Callable[[], bool],
    ) -> None:
        self._folder = folder
        self._is_over = is_over
        self._run = run_context
        super().__init__(params=params, run_context=run_context)

    def __post_init__(self) -> None:
        """Nothing: the folder is made by `artifact_dir`."""

    @property
    def is_cancelled(self) -> bool:
        # The status alone would be false again for threads that were left behind, once the run is FAILED.
        return self._is_over() or self._run.status in CANCELLING

    def raise_if_cancelled(self) -> None:
        """For long tasks, between two pieces of work."""
        if self.is_cancelled:
            raise Cancelled("The run is being cancelled")

    def resolve(self, value: object) -> object:
        """The value of a reference like `$node.read.output`, by the rules of inputs."""
        return resolve_reference(self, value)

    @property
    def artifact_dir(self) -> str | None:
        return self._folder.path()

    @artifact_dir.setter
    def artifact_dir(self, value: str | None) -> None:
        if value is not None:
            self._folder = ArtifactFolder(Path(value))

    def seen_until(self, is_over: Callable[[], bool]) -> Self:
        """The same context with another cancel flag: for one attempt, whose time may be up."""
        view = copy.copy(self)
        view._is_over = is_over
        return view
