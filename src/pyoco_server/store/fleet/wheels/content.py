"""Check that a file is the wheel that its name describes. Installs nothing; needs no server."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import IO

from packaging.metadata import RawMetadata, parse_email
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from pyoco_server.errors import Invalid
from pyoco_server.store.fleet.wheels.unpacked import UnpackedMax, check_directory
from pyoco_server.store.fleet.wheels.wheel import WheelName, check_wheel_name

METADATA_BYTES_MAX = 4 * 1024 * 1024
NEEDED = ("METADATA", "WHEEL", "RECORD")


def check_content(name: str, file: Path | IO[bytes], at_most: UnpackedMax) -> WheelName:
    """The parsed name, if the metadata in the file match. Raises Invalid with what is wrong, and TooLarge."""
    said = check_wheel_name(name)
    try:
        check_directory(file, at_most)
        with zipfile.ZipFile(file) as archive:
            folder = _dist_info(archive)
            metadata, _ = parse_email(_read(archive, f"{folder}/METADATA"))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise _invalid(f"is not a zip file that can be read ({error})") from error
    _check_same(said, metadata)
    return said


def _dist_info(archive: zipfile.ZipFile) -> str:
    names = set(archive.namelist())
    folders = {folder for folder, _, _ in (name.partition("/") for name in names) if _is_dist_info(folder)}
    if len(folders) != 1:
        raise _invalid(f"must have one .dist-info folder and has {len(folders)}")
    [folder] = folders
    missing = [name for name in NEEDED if f"{folder}/{name}" not in names]
    if missing:
        raise _invalid(f"lacks {', '.join(f'{folder}/{name}' for name in missing)}")
    return folder


def _is_dist_info(folder: str) -> bool:
    return folder.endswith(".dist-info")


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).file_size > METADATA_BYTES_MAX:
        raise _invalid(f"has a {name} of more than {METADATA_BYTES_MAX} bytes")
    return archive.read(name)


def _check_same(said: WheelName, metadata: RawMetadata) -> None:
    name, version = metadata.get("name", ""), metadata.get("version", "")
    if canonicalize_name(name) != said.package:
        raise _invalid(f"is of package {name!r}, and its file name says {said.package!r}")
    try:
        same = Version(version) == said.version
    except InvalidVersion:
        same = False
    if not same:
        raise _invalid(f"is of version {version!r}, and its file name says {str(said.version)!r}")


def _invalid(what: str) -> Invalid:
    return Invalid(
        f"The file {what}. Build the wheel again and upload it as it is.",
        details=[{"loc": ["wheel"], "msg": what, "type": "wheel_content"}],
    )
