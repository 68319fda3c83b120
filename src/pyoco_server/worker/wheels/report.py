"""The state of a worker's wheels, as its registry entry shows it (`wheel_sync`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pyoco_server import clock
from pyoco_server.store.fleet.wheels import Wheel

# The entry is rewritten every few seconds: it is a summary.
ITEMS_MAX = 50
ERROR_CHARS_MAX = 2000


@dataclass(slots=True)
class SyncReport:
    enabled: bool
    last_attempt_at: float | None = None
    last_success_at: float | None = None
    last_synced_at: float | None = None
    last_error: str | None = None
    selected: Collection[Wheel] = ()
    updated: Collection[Wheel] = ()
    removed: Collection[Wheel] = ()
    misfits: Collection[Wheel] = ()
    installed_at: dict[str, tuple[Wheel, float]] = field(default_factory=dict)

    def begin(self) -> None:
        self.last_attempt_at = clock.now()

    def end(self, *, error: str | None) -> None:
        """With an error or without."""
        now = clock.now()
        self.last_error = error[:ERROR_CHARS_MAX] if error else None
        if error is None:
            self.last_success_at = self.last_synced_at = now

    def note_installed(self, wheels: Iterable[Wheel]) -> None:
        now, known = clock.now(), self.installed_at
        self.installed_at = {wheel.nuid: known.get(wheel.nuid, (wheel, now)) for wheel in wheels}

    def described(self) -> dict[str, Any]:
        return {
            "enabled": self.enabled,
            "last_result": self._last_result(),
            "last_attempt_at": self.last_attempt_at,
            "last_success_at": self.last_success_at,
            "last_synced_at": self.last_synced_at,
            "last_error": self.last_error,
            "selected_count": len(self.selected),
            "updated_count": len(self.updated),
            "removed_count": len(self.removed),
            "skipped_incompatible_count": len(self.misfits),
            "selected_wheels": _names(self.selected),
            "updated_wheels": _names(self.updated),
            "removed_wheels": _names(self.removed),
            "skipped_incompatible": [
                _about(wheel) | {"reason": "unsupported_wheel_tags"} for wheel in _first(self.misfits)
            ],
            "installed_wheels": [
                _about(wheel) | {"tags": list(wheel.tags), "nuid": wheel.nuid, "installed_at": at}
                for wheel, at in list(self.installed_at.values())[:ITEMS_MAX]
            ],
        }

    def _last_result(self) -> str:
        if not self.enabled:
            return "disabled"
        if self.last_error is not None:
            return "error"
        return "idle" if self.last_success_at is None else "ok"


def _about(wheel: Wheel) -> dict[str, object]:
    return {
        "wheel_name": wheel.name,
        "package_name": wheel.package,
        "package_version": str(wheel.version),
    }


def _names(wheels: Iterable[Wheel]) -> list[str]:
    return [wheel.name for wheel in _first(wheels)]


def _first(wheels: Iterable[Wheel]) -> list[Wheel]:
    return sorted(wheels, key=lambda wheel: wheel.name)[:ITEMS_MAX]
