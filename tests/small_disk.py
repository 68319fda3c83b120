"""A small filesystem in memory that a test can fill. Mounting needs administrator rights."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 2**20
BLOCK = b"x" * 65_536


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free_bytes(self) -> int:
        now = os.statvfs(self.path)
        return now.f_bavail * now.f_frsize

    def fill(self, leave_bytes: int) -> None:
        """Write a file, as another program would, so that only this much space is free."""
        with self._ballast.open("ab", buffering=0) as ballast:
            while (more := self.free_bytes - leave_bytes) > 0:
                ballast.write(BLOCK[:more])

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path, size_bytes: int) -> Iterator[SmallDisk]:
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no small filesystem can be mounted here: {error}")
    if done.returncode != 0:
        pytest.skip(f"no small filesystem can be mounted here: {done.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        # Lazily: a reader that is a moment late must not leave the mount behind.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
