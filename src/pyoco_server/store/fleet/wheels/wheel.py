"""A wheel: its file name and the parts of it, its tags, and the object that stores it.

Pure. Owns which wheels a worker gets, and which of several is the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from pyoco_server.errors import Invalid
from pyoco_server.jetstream.object_info import ObjectInfo
from pyoco_server.names import check_routing_tag

TAGS_HEADER = "x-pyoco-wheel-tags"
SHA256_HEADER = "sha256"
TENANT_HEADER = "x-pyoco-wheel-tenant"
TAGS_MAX = 64
NAME_CHARS_MAX = 255  # of a file name, as most file systems have it

_file_name = re.compile(r"[A-Za-z0-9._+!-]+\.whl")
_nuid = re.compile(r"[A-Za-z0-9_-]+")


class WheelName(NamedTuple):
    """The parts of a file name like `demo-1.0-py3-none-any.whl`."""

    package: str  # as packages are compared: `Demo_Pkg` is `demo-pkg`
    version: Version
    build: tuple[int, str] | tuple[()]
    fits: frozenset[Tag]  # on which interpreters and platforms


@dataclass(frozen=True, slots=True)
class Wheel:
    name: str
    package: str
    version: Version
    tags: tuple[str, ...]  # empty: for all workers
    nuid: str  # another one for every upload
    size: int
    sha256: str | None
    uploaded_at: float
    build: tuple[int, str] | tuple[()] = ()
    fits: frozenset[Tag] = field(default=frozenset(), repr=False)
    tenant_id: str | None = None

    @property
    def age(self) -> tuple[Version, tuple[int, str] | tuple[()], str]:
        """The newest wheel of a package has the highest value."""
        return self.version, self.build, self.name


def wheel_of(info: ObjectInfo) -> Wheel | None:
    """None for an object that is not a wheel. Such objects are ignored."""
    try:
        said = check_wheel_name(info.name)
    except Invalid:
        return None
    if not _nuid.fullmatch(info.nuid):  # it becomes the name of a folder
        return None
    headers = {name.lower(): value for name, value in info.headers.items()}
    return Wheel(
        name=info.name,
        package=said.package,
        version=said.version,
        tags=tuple(part.strip() for part in headers.get(TAGS_HEADER, "").split(",") if part.strip()),
        nuid=info.nuid,
        size=info.size,
        sha256=info.sha256_hex,
        uploaded_at=info.modified_at,
        tenant_id=headers.get(TENANT_HEADER),
        build=said.build,
        fits=said.fits,
    )


def for_tags(wheels: Iterable[Wheel], tags: Iterable[str]) -> list[Wheel]:
    """The wheels for a worker with these tags."""
    wanted = set(tags)
    return [wheel for wheel in wheels if not wheel.tags or not wanted.isdisjoint(wheel.tags)]


def newest(wheels: Iterable[Wheel]) -> list[Wheel]:
    """The newest of each package, by package."""
    found: dict[str, Wheel] = {}
    for wheel in wheels:
        other = found.get(wheel.package)
        if other is None or wheel.age > other.age:
            found[wheel.package] = wheel
    return [found[package] for package in sorted(found)]


def check_wheel_name(name: str) -> WheelName:
    if _file_name.fullmatch(name) and len(name) <= NAME_CHARS_MAX:
        try:
            return WheelName(*parse_wheel_filename(name))
        except InvalidWheelFilename:
            pass
    raise Invalid(
        "The file name must be that of a wheel, like demo_pkg-1.0-py3-none-any.whl: build it again.",
        details=[{"loc": ["wheel"], "msg": "is not the file name of a wheel", "type": "wheel_name"}],
    )


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Each once, in their order."""
    if len(tags) > TAGS_MAX:
        message = f"A wheel can have {TAGS_MAX} tags at most."
        raise Invalid.at(["tags"], message)
    return tuple(dict.fromkeys(check_routing_tag(tag, "tags") for tag in tags))
