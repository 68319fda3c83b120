"""The process that installs one wheel into one folder. It is a process so that it can be killed.

Installs the files of the wheel and nothing else: no dependencies, no network access.
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
    """Counts the bytes that are read, which may differ from the sizes in the file's directory."""

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


def _report(kind: type[BaseException], error: BaseException, _trace: object) -> None:
    """The last line of stderr is the reason why a wheel cannot be installed."""
    sys.stderr.write(f"{kind.__name__}: {error}\n")


if __name__ == "__main__":
    sys.excepthook = _report
    unpack(Path(sys.argv[1]), Path(sys.argv[2]), UnpackedMax(bytes=int(sys.argv[3]), files=int(sys.argv[4])))
