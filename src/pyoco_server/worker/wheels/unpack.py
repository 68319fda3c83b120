"""The process that installs one wheel into one folder. A process of its own, so that it can be killed alone.

Installs what is in the wheel and nothing else: no dependencies, no network, no look at what is installed.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.records import RecordEntry
from installer.sources import WheelFile
from installer.utils import Scheme
from packaging.metadata import parse_email
from packaging.specifiers import SpecifierSet

from pyoco_server.store.fleet.wheels.unpacked import UnpackedMax, check_directory


class _Counted:
    """Counts what is really read, not what the directory of the file claims."""

    def __init__(self, stream: BinaryIO, count: Callable[[int], None]) -> None:
        self._stream = stream
        self._count = count

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self._count(len(data))
        return data


class _Destination(SchemeDictionaryDestination):
    at_most: UnpackedMax
    size = 0
    files = 0

    def write_to_fs(self, scheme: Scheme, path: str, stream: BinaryIO, is_executable: bool) -> RecordEntry:
        self.files += 1
        self._count(0)
        counted = cast(BinaryIO, _Counted(stream, self._count))
        return super().write_to_fs(scheme, path, counted, is_executable)

    def _count(self, size: int) -> None:
        self.size += size
        self.at_most.check(size=self.size, files=self.files)


def unpack(file: Path, folder: Path, at_most: UnpackedMax) -> None:
    """As `pip install --no-deps --target` lays it out. Raises TooLarge."""
    check_directory(file, at_most)
    places = {"purelib": folder, "platlib": folder, "data": folder}
    places |= {"scripts": folder / "bin", "headers": folder / "include"}
    destination = _Destination(
        {name: str(place) for name, place in places.items()}, interpreter=sys.executable, script_kind="posix"
    )
    destination.at_most = at_most
    with WheelFile.open(file) as source:
        _check_python(source.read_dist_info("METADATA"))
        install(source, destination, {"INSTALLER": b"pyoco-server\n"})


def _check_python(metadata: str) -> None:
    wanted = parse_email(metadata)[0].get("requires_python")
    here = platform.python_version()
    if wanted and not SpecifierSet(wanted).contains(here, prereleases=True):
        raise ValueError(f"needs Python {wanted}, and this is {here}")


def main() -> int:
    try:
        at_most = UnpackedMax(bytes=int(sys.argv[3]), files=int(sys.argv[4]))
        unpack(Path(sys.argv[1]), Path(sys.argv[2]), at_most)
    except Exception as error:  # process boundary: the text is the report, however the wheel is broken
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
