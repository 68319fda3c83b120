"""Build the dashboard into the package: as a hook of hatch, and by hand (`make dashboard`).

Nothing is built again while sources and lock are what they were; `install` only loads what the lock names.
Without Node there is no dashboard; the package is then built without it, and the gateway says so at `/`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NODE_MAJOR_MIN = 20
COMMAND_TIMEOUT_SEC = 600

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "src" / "pyoco_server" / "http_api" / "dashboard"
STAMP = BUILT / ".built"
INSTALLED = HERE / "node_modules" / ".installed"
NOT_SOURCES = {"node_modules", "dist", "__pycache__"}


class NotBuilt(Exception):
    """The message says why, and what to do."""


class DashboardHook(BuildHookInterface[Any]):
    """Whatever goes wrong, the package is built: everything else works without a dashboard."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        try:
            build()
        except NotBuilt as why:
            self.app.display_warning(f"The dashboard is not part of this build. {why}")


def build() -> bool:
    """True when there was something to do. Raises NotBuilt."""
    digest = _digest(sorted(_sources()))
    if STAMP.is_file() and STAMP.read_text() == digest:
        return False
    npm = install()
    _run([npm, "run", "--silent", "types"])
    _run([npm, "run", "--silent", "build"])
    STAMP.write_text(digest)
    return True


def install() -> str:
    """What the lock names is there; the npm that put it there. Raises NotBuilt."""
    npm = _npm()
    lock = _digest([HERE / "package-lock.json"])
    if not INSTALLED.is_file() or INSTALLED.read_text() != lock:
        _run([npm, "ci", "--loglevel", "error"])
        INSTALLED.write_text(lock)
    return npm


def _sources() -> list[Path]:
    files = [path for path in HERE.rglob("*") if path.is_file() and not NOT_SOURCES & set(path.parts)]
    return [*(path for path in files if path.suffix != ".pyc"), HERE.parent / "docs" / "openapi.json"]


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        if path.name != "schema.d.ts":  # made from the description of the API, which is among them
            name = path.relative_to(HERE.parent).as_posix()
            digest.update(f"{name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _npm() -> str:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise NotBuilt(f"It needs Node {NODE_MAJOR_MIN} or newer with npm; then run `make dashboard`.")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < NODE_MAJOR_MIN:
        raise NotBuilt(f"It needs Node {NODE_MAJOR_MIN} or newer, this is {version}.")
    return npm


def _run(command: list[str]) -> None:
    try:
        ran = subprocess.run(
            command, cwd=HERE, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_SEC, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotBuilt(f"`{' '.join(command[1:])}` could not be run: {error}") from error
    if ran.returncode:
        raise NotBuilt(f"`npm {' '.join(command[1:])}` failed:\n{ran.stdout}{ran.stderr}")


def main() -> int:
    try:
        if sys.argv[1:] == ["install"]:
            install()
        else:
            build()
    except NotBuilt as why:
        sys.stderr.write(f"The dashboard cannot be built. {why}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
