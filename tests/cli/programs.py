"""Our console scripts as processes: started, spoken to, and always ended by their process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar

from tests.cli.nursery import Process, can_start, the_nursery

BIN = Path(sys.executable).parent
DEADLINE_SEC = 30.0
STEP_SEC = 0.01
NO_FOLDER = "/nonexistent"

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str = "the condition") -> T:
    """Its first truthy value; fails when that does not come."""
    deadline = time.monotonic() + DEADLINE_SEC
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come true in time"
        time.sleep(STEP_SEC)
    return value


def clean_environment(**more: str) -> dict[str, str]:
    """Ours without settings and profiles, so that no test depends on the machine it runs on."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYOCO_", "LC_"))}
    own = {"LANG": "C.UTF-8", "PYOCO_LOAD_DOTENV": "0", "PYTHONUNBUFFERED": "1"}
    return kept | own | {"XDG_CONFIG_HOME": NO_FOLDER} | more


def is_running(pid: int) -> bool:
    """A dead child nobody has waited for yet is no longer running."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def children_of(pid: int) -> dict[int, str]:
    """Process ids and command lines. A child that ends meanwhile is left out."""
    found: dict[int, str] = {}
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended
            for child in listing.read_text().split():
                with suppress(FileNotFoundError, ProcessLookupError):
                    command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found[int(child)] = command
    return found


@dataclass
class Program:
    """A console script under way. What it said is in `output` and `errors`."""

    process: Process
    stdout: Path
    stderr: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.stdout.read_text()

    @property
    def errors(self) -> str:
        return self.stderr.read_text()

    @property
    def said(self) -> str:
        """On either stream."""
        return self.output + self.errors

    def send(self, sig: signal.Signals) -> None:
        self.process.send_signal(sig)

    def ended(self) -> int:
        """Its exit code."""
        return self.process.wait(DEADLINE_SEC)

    def says(self, words: str) -> None:
        def said() -> bool:
            assert self.process.poll() is None or words in self.said, self.errors
            return words in self.said

        wait_for(said, repr(words))


@dataclass
class Programs:
    """Starts console scripts in a folder, and ends what is left of them."""

    folder: Path
    environment: Mapping[str, str] = field(default_factory=clean_environment)
    started: list[Program] = field(default_factory=list)

    def start(self, name: str, *arguments: object, **settings: str) -> Program:
        number = len(self.started)
        out, err = (self.folder / f"{number}.{kind}" for kind in ("out", "err"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = self._begun([name, *map(str, arguments)], settings, stdout, stderr)
        program = Program(process, out, err)
        self.started.append(program)
        return program

    def _begun(
        self, command: list[str], settings: Mapping[str, str], stdout: IO[bytes], stderr: IO[bytes]
    ) -> Process:
        name, *arguments = command
        script, environment = (
            [str(BIN / name), *arguments],
            {**self.environment, **self._own_profiles(), **settings},
        )
        if can_start(name, arguments, settings):
            return the_nursery().start(
                script,
                folder=self.folder,
                environment=environment,
                stdout=stdout.fileno(),
                stderr=stderr.fileno(),
            )
        return subprocess.Popen(
            script,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=self.folder,
            env=environment,
        )

    def _own_profiles(self) -> Mapping[str, str]:
        return {"XDG_CONFIG_HOME": str(self.folder / "config")}

    def run(self, name: str, *arguments: object, **settings: str) -> Program:
        program = self.start(name, *arguments, **settings)
        program.ended()
        return program

    def end_all(self) -> None:
        for program in self.started:
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait(DEADLINE_SEC)


@dataclass
class Up:
    """A `pyoco-server up` that said it is ready."""

    program: Program
    url: str
    data_dir: Path

    @property
    def broker_url(self) -> str:
        return str(self._record()["url"])

    @property
    def broker_pid(self) -> int:
        return int(self._record()["pid"])

    def _record(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.data_dir / "broker.json").read_text())
        return record

    @property
    def worker_pid(self) -> int | None:
        workers = [pid for pid, command in children_of(self.program.pid).items() if "cli.worker" in command]
        return workers[0] if workers else None

    @property
    def pids(self) -> list[int]:
        worker = wait_for(lambda: self.worker_pid, "a worker")
        assert worker is not None
        return [self.program.pid, self.broker_pid, worker]
