"""Which wheels a worker installs, of all that exist. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from packaging.tags import Tag

from pyoco_server.store.fleet.wheels import Wheel, for_tags


class Choice(NamedTuple):
    """All matching wheels of each package, the newest first: an older one is used if that one fails."""

    packages: list[list[Wheel]]
    misfits: list[Wheel]  # with our tags, but for another interpreter or platform

    @property
    def newest(self) -> list[Wheel]:
        return [wheels[0] for wheels in self.packages]


def choose(wheels: Iterable[Wheel], tags: Iterable[str], supported: Iterable[Tag]) -> Choice:
    ours = sorted(for_tags(wheels, tags), key=lambda wheel: wheel.age, reverse=True)
    here = frozenset(supported)
    packages: dict[str, list[Wheel]] = {}
    misfits = []
    for wheel in ours:
        if here.isdisjoint(wheel.fits):
            misfits.append(wheel)
        else:
            packages.setdefault(wheel.package, []).append(wheel)
    return Choice([packages[name] for name in sorted(packages)], misfits)
