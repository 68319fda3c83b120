"""The artifact folder is made on demand, where it was asked for, and leaves nothing empty behind."""

from pathlib import Path

import pytest
from pyoco.core.context import Context

from pyoco_server.engine import Engine
from tests.engine.building import flow_of, make_task


@pytest.fixture(autouse=True)
def temp_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    temp = tmp_path / "temp"
    temp.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pyoco_server.engine.tasks.context.gettempdir", lambda: str(temp))
    return temp


def folder_of(ctx: Context) -> str:
    assert ctx.artifact_dir is not None
    assert Path(ctx.artifact_dir).is_dir()
    return ctx.artifact_dir


def save(ctx: Context) -> str:
    path = ctx.save_artifact("deep/report.txt", "text")
    assert isinstance(path, str)
    return path


def test_a_run_without_artifacts_makes_no_folder(tmp_path: Path, temp_dir: Path) -> None:
    outcome = Engine().run(flow_of(make_task("a", lambda: 1)))
    assert outcome.context.artifact_dir is not None
    assert list(temp_dir.iterdir()) == []
    assert list(tmp_path.iterdir()) == [temp_dir]


def test_a_temporary_folder_that_stays_empty_is_removed(temp_dir: Path) -> None:
    outcome = Engine().run(flow_of(make_task("a", folder_of)))
    assert outcome.results["a"] == outcome.context.artifact_dir
    assert list(temp_dir.iterdir()) == []


def test_artifacts_stay_in_the_temporary_folder(temp_dir: Path) -> None:
    path = Path(str(Engine().run(flow_of(make_task("a", save))).results["a"]))
    assert path.read_text() == "text"
    assert temp_dir in path.parents


def test_artifacts_go_where_the_caller_says(tmp_path: Path) -> None:
    outcome = Engine().run(flow_of(make_task("a", save)), artifact_dir=tmp_path / "mine")
    assert Path(str(outcome.results["a"])) == tmp_path / "mine" / "deep" / "report.txt"
    assert outcome.context.artifacts["deep/report.txt"]["type"] == "str"
