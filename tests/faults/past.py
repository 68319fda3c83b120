"""A broker that returns without the end of its streams: as after a power cut, or with a restored disk."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import NatsServer


class Past:
    """The data folder of a broker as it was when this was made."""

    def __init__(self, server: NatsServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        server.stop()
        shutil.copytree(server._folder, folder)
        server.start()

    def comes_back(self, *streams: str) -> None:
        """The broker dies and returns as it was then; with `streams`, only these are as they were."""
        self._server.kill()
        for kept, present in self._folders(streams):
            shutil.rmtree(present, ignore_errors=True)
            shutil.copytree(kept, present)
        self._server.start()

    def _folders(self, streams: tuple[str, ...]) -> list[tuple[Path, Path]]:
        if not streams:
            return [(self._folder, self._server._folder)]
        below = Path("jetstream", "$G", "streams")
        return [(self._folder / below / name, self._server._folder / below / name) for name in streams]
