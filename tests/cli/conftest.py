"""What the tests of the commands share: programs that are ended afterwards, and an `up` that is ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.cli.programs import Programs, Up
from tests.conftest import free_port


class StartUp(Protocol):
    def __call__(self, *arguments: object, data_dir: Path | None = None, **settings: str) -> Up: ...


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    running = Programs(tmp_path)
    yield running
    running.end_all()


@pytest.fixture
def start_up(programs: Programs) -> StartUp:
    return starter(programs)


@pytest.fixture(scope="module")
def shared_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    running = Programs(tmp_path_factory.mktemp("programs"))
    yield running
    running.end_all()


@pytest.fixture(scope="module")
def shared_up(shared_programs: Programs) -> Up:
    """For tests that only talk to it."""
    return starter(shared_programs)("--concurrency", 4)


def starter(programs: Programs) -> StartUp:
    def start(*arguments: object, data_dir: Path | None = None, **settings: str) -> Up:
        folder = data_dir or programs.folder / "data"
        port = free_port()
        program = programs.start("pyoco-server", "--port", port, "--data-dir", folder, *arguments, **settings)
        program.says("pyoco-server is ready")
        program.says("Ctrl-C")
        return Up(program, f"http://127.0.0.1:{port}", folder)

    return start
