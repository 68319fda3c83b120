"""`--reload`: what an author saves is what the next run executes; what cannot be loaded changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.operations.runs.submit import Submission, submit
from pyoco_server.store.store import Store
from pyoco_server.worker.flows import reload
from pyoco_server.worker.flows.reload import Reload, files_below, folder_of
from pyoco_server.worker.slots.edition import ResolverBroken
from tests.conftest import until
from tests.promises.stack import Processes, processes

FLOWS = """
from pathlib import Path
import time
from pyoco import Flow, task
from wording import WORD

@task
def say(ctx):
    Path(ctx.params["marks"]).write_text("began")
    while ctx.params.get("until") and not Path(ctx.params["until"]).exists():
        time.sleep(0.01)
    return WORD

def resolve(name):
    return Flow(name=name) >> say
"""


@pytest.mark.slow
async def test_the_next_run_uses_what_was_saved_and_goes_on_with_the_old_while_that_is_broken(
    store: Store, tmp_path: Path
) -> None:
    author = _Author(tmp_path)
    author.saves("one")
    with processes(store.config, tmp_path) as started:
        worker = author.starts_a_worker(started)
        assert await _said(store, author) == "one"

        author.saves("two")
        await author.reads("changed flows are loaded", times=1)
        assert await _said(store, author) == "two"

        author.writes("WORD = (\n")
        await author.reads("changed flows cannot be loaded", times=1)
        assert await _said(store, author) == "two"
        assert "wording.py, line 1" in author.log

        author.saves("four")
        await author.reads("changed flows are loaded", times=2)
        assert await _said(store, author) == "four"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(20) == 0


@pytest.mark.slow
async def test_a_run_under_way_ends_with_the_code_it_began_with(store: Store, tmp_path: Path) -> None:
    author = _Author(tmp_path)
    author.saves("old")
    go_on = tmp_path / "go_on"
    with processes(store.config, tmp_path) as started:
        author.starts_a_worker(started)
        run_id = await _submitted(store, author, until=str(go_on))
        await until(author.marks.exists, within_sec=30)
        author.saves("new")
        await author.reads("changed flows are loaded", times=1)
        assert await _said(store, author) == "new"
        go_on.touch()
        assert await _output(store, run_id) == "old"


class _Author:
    """Has a flow file and a module beside it, and reads what the worker writes."""

    def __init__(self, folder: Path) -> None:
        self.flows = folder / "flows"
        self.flows.mkdir()
        self.marks = folder / "marks"
        self._written = folder / "worker.log"
        (self.flows / "my_flows.py").write_text(FLOWS)

    def saves(self, word: str) -> None:
        self.writes(f"WORD = {word!r}\n")

    def writes(self, source: str) -> None:
        """As editors do: beside it, then in its place."""
        beside = self.flows / "wording.py~"
        beside.write_text(source)
        beside.replace(self.flows / "wording.py")

    def starts_a_worker(self, started: Processes) -> Any:
        command = ["pyoco-worker", "--worker-id", "w", "--concurrency", "2"]
        command += ["--flow-resolver", f"{self.flows / 'my_flows.py'}:resolve", "--reload"]
        return started.run(command, "worker")

    @property
    def log(self) -> str:
        return self._written.read_text()

    async def reads(self, words: str, *, times: int) -> None:
        await until(lambda: self.log.count(words) >= times, within_sec=30)


async def _submitted(store: Store, author: _Author, **params: str) -> str:
    wanted = Submission(flow_name="main", params={"marks": str(author.marks), **params})
    return (await submit(store, wanted)).run.run_id


async def _said(store: Store, author: _Author) -> Any:
    return await _output(store, await _submitted(store, author))


async def _output(store: Store, run_id: str) -> Any:
    async def ended() -> bool:
        stored = await store.runs.load(run_id)
        return stored is not None and stored.run.is_terminal

    await until(ended, within_sec=30)
    stored = await store.runs.load(run_id, whole=True)
    assert stored is not None
    assert stored.run.status.value == "COMPLETED", stored.run.error
    return stored.run.tasks["say"].output


@pytest.fixture
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "LOOK_EVERY_SEC", 0.01)
    monkeypatch.setattr(reload, "SETTLE_SEC", 0.01)


@pytest.mark.usefixtures("quick_looks")
async def test_a_save_of_equal_length_in_the_same_instant_leaves_no_compiled_file(tmp_path: Path) -> None:
    file = tmp_path / "flows.py"
    file.write_text("WORD = 1")
    _compile(file)
    watching, renewed = Reload(f"{file}:resolve"), asyncio.Event()
    watching.start(_setting(renewed))
    file.write_text("WORD = 2")
    await asyncio.wait_for(renewed.wait(), 10)
    assert not _is_compiled(file)
    await watching.stop()


@pytest.mark.usefixtures("quick_looks")
async def test_what_was_saved_between_the_first_look_and_the_start_is_loaded(tmp_path: Path) -> None:
    file = tmp_path / "flows.py"
    file.write_text("")
    watching, renewed = Reload(f"{file}:resolve"), asyncio.Event()
    file.write_text("# saved while the slots were starting")
    watching.start(_setting(renewed))
    await asyncio.wait_for(renewed.wait(), 10)
    await watching.stop()
    await watching.stop()


@pytest.mark.usefixtures("quick_looks")
async def test_a_file_that_cannot_be_loaded_is_tried_again_only_when_something_changes(
    tmp_path: Path,
) -> None:
    file = tmp_path / "flows.py"
    file.write_text("")
    watching = Reload(f"{file}:resolve")
    tries: list[str] = []

    async def renew() -> None:
        tries.append(file.read_text())
        raise ResolverBroken("it is broken")

    watching.start(renew)
    file.write_text("broken")
    await until(lambda: tries == ["broken"])
    file.write_text("repaired")
    await until(lambda: "repaired" in tries)
    assert tries == ["broken", "repaired"]
    await watching.stop()


def _compile(file: Path) -> None:
    compiled = Path(cache_from_source(str(file)))
    compiled.parent.mkdir()
    compiled.write_bytes(b"of the old text")


def _is_compiled(file: Path) -> bool:
    return Path(cache_from_source(str(file))).exists()


def _setting(renewed: asyncio.Event) -> Callable[[], Awaitable[None]]:
    async def renew() -> None:
        renewed.set()

    return renew


def test_a_file_is_watched_with_its_folder(tmp_path: Path) -> None:
    assert folder_of(f"{tmp_path / 'my_flows.py'}:resolve") == tmp_path.resolve()


@pytest.mark.parametrize("module", ["shop.flows.daily", "shop"])
def test_a_module_is_watched_with_its_whole_package_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / "shop" / "flows").mkdir(parents=True)
    (tmp_path / "shop" / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    assert folder_of(f"{module}:resolve") == (tmp_path / "shop").resolve()
    assert "shop" not in sys.modules


def test_a_module_without_a_package_is_watched_with_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lone_flows.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert folder_of("lone_flows:resolve") == tmp_path.resolve()
    assert folder_of("not_there_yet:resolve") == tmp_path


def test_what_no_author_writes_is_not_watched(tmp_path: Path) -> None:
    wanted = ["flows.py", "flow.yaml", "other.yml", "inside/tasks.py"]
    skipped = [".git/x.py", "__pycache__/x.py", ".venv/x.py", "node_modules/x.py", "env/lib/x.py", "a.txt"]
    for name in [*wanted, *skipped, "env/pyvenv.cfg"]:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert {path.relative_to(tmp_path).as_posix() for path in files_below(tmp_path)} == set(wanted)


def test_there_is_a_limit_to_what_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reload, "FILES_MAX", 3)
    for number in range(5):
        (tmp_path / f"{number}.py").touch()
    (tmp_path / "gone.py").symlink_to(os.devnull + "-not-there")
    assert len(files_below(tmp_path)) == 3
