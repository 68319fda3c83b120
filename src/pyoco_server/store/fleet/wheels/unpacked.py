"""The limits of an unpacked wheel, checked on the directory of the zip file.

A few kilobytes can unpack to more than a disk holds. The directory is checked first; it may be wrong, so the
worker counts again while it unpacks.
"""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from pyoco_server.errors import TooLarge

# File names are part of the directory: the average entry of a wheel is smaller.
DIRECTORY_ENTRY_BYTES_MAX = 1024
# Files of .dist-info that are parsed as a whole; a megabyte takes about 25 MB of memory.
TEXT_BYTES_MAX = 4 * 2**20
# A line of RECORD without the file name: a digest and a size.
RECORD_LINE_BYTES = 256
RECORD_BYTES_MAX = 64 * 2**20
PARSED = ("METADATA", "WHEEL", "entry_points.txt")

_DIRECTORY_BYTES = 5  # its index in the end record of zipfile


class UnpackedMax(NamedTuple):
    bytes: int  # PYOCO_WHEEL_UNPACKED_MAX_BYTES
    files: int  # PYOCO_WHEEL_UNPACKED_MAX_FILES

    def check(self, *, size: int, files: int) -> None:
        """Raises TooLarge, naming the setting."""
        if size > self.bytes:
            raise too_large(f"has more than {self.bytes} bytes unpacked (PYOCO_WHEEL_UNPACKED_MAX_BYTES)")
        if files > self.files:
            raise too_large(f"has more than {self.files} files (PYOCO_WHEEL_UNPACKED_MAX_FILES)")


def too_large(what: str) -> TooLarge:
    return TooLarge(f"The wheel {what}.", err_id="ERR-PYOCO-0002")


def check_directory(file: Path | IO[bytes], at_most: UnpackedMax) -> None:
    """Check the directory of the zip file. Raises TooLarge and BadZipFile."""
    if isinstance(file, Path):
        with file.open("rb") as opened:
            check_directory(opened, at_most)
        return
    _check_directory_bytes(file, at_most)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    at_most.check(size=sum(entry.file_size for entry in entries), files=len(entries))
    _check_texts(entries)


def _check_texts(entries: Sequence[zipfile.ZipInfo]) -> None:
    """RECORD has a line for each file, so it may grow with them."""
    lines = sum(len(entry.filename.encode()) + RECORD_LINE_BYTES for entry in entries)
    record_max = min(RECORD_BYTES_MAX, TEXT_BYTES_MAX + lines)
    for entry in entries:
        folder, _, name = entry.filename.partition("/")
        if not folder.endswith(".dist-info"):
            continue
        bytes_max = record_max if name == "RECORD" else TEXT_BYTES_MAX
        if name in ("RECORD", *PARSED) and entry.file_size > bytes_max:
            raise too_large(f"has a {name} of more than {bytes_max} bytes")


def _check_directory_bytes(file: IO[bytes], at_most: UnpackedMax) -> None:
    """Before the directory is read: every entry becomes an object in memory."""
    end = zipfile._EndRecData(file)  # type: ignore[attr-defined]
    if end is None:
        raise zipfile.BadZipFile("File is not a zip file")
    if end[_DIRECTORY_BYTES] > at_most.files * DIRECTORY_ENTRY_BYTES_MAX:
        raise too_large(f"has more than {at_most.files} files (PYOCO_WHEEL_UNPACKED_MAX_FILES)")
