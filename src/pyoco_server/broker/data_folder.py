"""A claimed data folder, and the record in it of where its broker listens. Not the store below it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from pyoco_server.broker.folder_lock import is_locked, lock_folder, unlock_folder
from pyoco_server.broker.small_files import read_json, write_atomically

RECORD_NAME = "broker.json"


class DataFolder:
    """A folder that this process owns until `release`."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self.lock_fd = lock_fd

    @classmethod
    async def claim(cls, path: Path) -> Self:
        """Create the folder if it is missing, and lock it. Raises DataFolderInUse with the owner."""
        _create(path)
        return cls(path, await lock_folder(path))

    def record(self, facts: Mapping[str, str | int]) -> None:
        """Store the address of the broker, for commands that look for it."""
        write_atomically(self.path / RECORD_NAME, json.dumps(dict(facts)) + "\n")

    def forget(self) -> None:
        (self.path / RECORD_NAME).unlink(missing_ok=True)

    def release(self) -> None:
        unlock_folder(self.lock_fd)


def recorded_broker_url(data_dir: Path) -> str | None:
    """Where the broker of this folder listens; None without a record, or if its broker is gone.

    The lock shows whether it runs: unlike the process id in the record, it cannot match another process
    after a reboot.
    """
    url = read_json(data_dir / RECORD_NAME).get("url")
    return url if isinstance(url, str) and is_locked(data_dir) else None


def _create(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)  # it will hold the data of runs
