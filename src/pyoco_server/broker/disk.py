"""How much space the filesystem of a folder has."""

import os
from pathlib import Path
from typing import NamedTuple


class Disk(NamedTuple):
    """`free_bytes`: what a program without special rights may still write."""

    free_bytes: int
    total_bytes: int


def disk_of(folder: Path) -> Disk | None:
    """None if the folder cannot be read, for example because its filesystem is gone."""
    try:
        now = os.statvfs(folder)
    except OSError:
        return None
    return Disk(free_bytes=now.f_bavail * now.f_frsize, total_bytes=now.f_blocks * now.f_frsize)
