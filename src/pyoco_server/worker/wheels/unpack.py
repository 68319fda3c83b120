"""The process that installs one wheel into one folder. Alone, so that it can be ended and takes nobody along.

Installs what is in the wheel and nothing else: no dependencies, no network, no look at what is installed.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

from installer import install
from installer.destinations import SchemeDictionaryDestination
from installer.sources import WheelFile
from packaging.metadata import parse_email
from packaging.specifiers import SpecifierSet


def unpack(file: Path, folder: Path) -> None:
    """As `pip install --no-deps --target` lays it out."""
    places = {"purelib": folder, "platlib": folder, "data": folder}
    places |= {"scripts": folder / "bin", "headers": folder / "include"}
    destination = SchemeDictionaryDestination(
        {name: str(place) for name, place in places.items()}, interpreter=sys.executable, script_kind="posix"
    )
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
        unpack(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:  # the end of the process: a wheel can be wrong in any way
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
