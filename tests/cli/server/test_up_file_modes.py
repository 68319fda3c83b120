"""What `up` with authentication leaves on the disk is for its owner alone."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.cli.conftest import StartUp
from tests.cli.programs import Programs

# Where the broker listens, without its password.
ADDRESS = "broker.json"


@pytest.mark.parametrize("was_there", [False, True])
def test_nobody_else_can_read_anything_in_the_data_folder(
    programs: Programs, start_up: StartUp, was_there: bool
) -> None:
    data_dir = programs.folder / "data"
    if was_there:
        data_dir.mkdir(mode=0o755)
    start_up("--no-worker", data_dir=data_dir, PYOCO_HTTP_AUTH_MODE="api_key")
    open_to_others = {path.name for path in _below(data_dir) if _mode(path) & 0o077}
    assert open_to_others == ({"data", ADDRESS} if was_there else set())
    assert _mode(data_dir / "broker.credentials.json") == 0o600


def _below(folder: Path) -> list[Path]:
    """What another user could get to: nothing is, below a folder that is closed."""
    found = [folder]
    if _mode(folder) & 0o077:
        for path in folder.iterdir():
            found += _below(path) if path.is_dir() else [path]
    return found


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
