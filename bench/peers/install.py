"""Install a system into an environment of its own, in a cache folder: from PyPI, npm and Debian."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.services import postgres_programs
from bench.peers.system import ROOT, System

OUR_PACKAGE = "pyoco-server"


class NotInstallable(Exception):
    """The message says why, for the column of this system."""


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pyoco-server-bench"


def install(name: str, system: type[System], python: str, cache: Path) -> Path:
    """The Python of the system's environment. Installs what is missing."""
    for program, package in system.debian:
        _install_from_debian(program, package)
    for package in system.npm:
        _install_from_npm(package, cache / "npm")
    python_hash = hashlib.sha256(python.encode()).hexdigest()[:8]
    return _install_from_pypi(cache / "environments" / f"{name}-{python_hash}", python, system.packages)


def versions(python: Path, system: type[System], cache: Path) -> dict[str, str]:
    """Of the packages that were asked for by name."""
    return _npm_versions(system.npm, cache / "npm") | _pypi_versions(python, system.packages)


def _pypi_versions(python: Path, packages: Sequence[str]) -> dict[str, str]:
    listed = _run([sys.executable, "-m", "pip", "--python", python, "list", "--format", "json"])
    found = {package["name"].lower(): package["version"] for package in json.loads(listed)}
    asked = {package.partition("[")[0] for package in packages} | {OUR_PACKAGE}
    return {name: version for name, version in found.items() if name in asked}


def _npm_versions(packages: Sequence[str], folder: Path) -> dict[str, str]:
    files = [folder / "node_modules" / package / "package.json" for package in packages]
    return {file.parent.name: json.loads(file.read_text())["version"] for file in files}


def _install_from_debian(program: str, package: str) -> None:
    if _is_there(program):
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotInstallable(f"needs {program} (on Debian, as root: apt-get install {package})")
    options = ["-y", "-qq", "--no-install-recommends"]
    _run(["apt-get", "update", "-qq"])
    _run(["apt-get", "install", *options, package], DEBIAN_FRONTEND="noninteractive")
    if not _is_there(program):
        raise NotInstallable(f"{package} was installed, but there is no {program}")


def _is_there(program: str) -> bool:
    return postgres_programs() is not None if program == "postgres" else shutil.which(program) is not None


def _install_from_npm(package: str, folder: Path) -> None:
    if (folder / "node_modules" / package).exists():
        return
    if shutil.which("npm") is None:
        raise NotInstallable(f"needs npm, to install {package}")
    folder.mkdir(parents=True, exist_ok=True)
    _run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", folder, package])


def _install_from_pypi(folder: Path, python: str, packages: Sequence[str]) -> Path:
    """Other systems are installed once. Our checkout may have changed, so it is installed each time."""
    inside, done = folder / "bin" / "python", folder / "installed"
    pip = [sys.executable, "-m", "pip", "--python", inside, "install", "--quiet"]
    wanted = json.dumps(list(packages))
    if not done.exists() or done.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Debian's Python has no pip of its own.
        _run([python, "-m", "venv", "--without-pip", folder])
        _run([*pip, *packages])
        done.write_text(wanted)
    elif str(ROOT) in packages:
        _run([*pip, "--force-reinstall", "--no-deps", ROOT])
    return inside


def _run(command: Sequence[object], **env: str) -> str:
    """Its output. Raises NotInstallable with the last line of its errors."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=os.environ | env, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotInstallable(f"`{' '.join(words[:4])} …` cannot be run: {error}") from error
    if done.returncode:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise NotInstallable(f"`{' '.join(words[:4])} …` has failed: {last[:200]}")
    return done.stdout
