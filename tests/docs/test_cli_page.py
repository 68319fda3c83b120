"""The commands of docs/reference/cli.md, in their order, against a real `up`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import httpx

from pyoco_server.cli.client.grammar import ROWS
from tests.docs.test_examples import BIN, blocks, up

PAGE = "docs/reference/cli.md"


def section(part_of_first_line: str) -> list[str]:
    """The lines of the block that begins like this."""
    [found] = [block for block in blocks(PAGE, "sh") if part_of_first_line in block.splitlines()[0]]
    return found.splitlines()


def typed(line: str, folder: Path, **variables: str) -> str:
    """What the command prints; it must succeed."""
    own = {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_CONFIG_HOME": str(folder / "settings")}
    done = subprocess.run(
        line, shell=True, cwd=folder, env=os.environ | own | variables, capture_output=True, text=True
    )
    assert done.returncode == 0, (line, done.stderr)
    return done.stdout


def test_profiles_are_set_used_listed_and_removed(tmp_path: Path) -> None:
    (tmp_path / "key.txt").write_text("some-key\n")
    with up(tmp_path, "--no-worker") as port:
        for line in section("config set"):
            typed(line.replace("127.0.0.1:8000", f"127.0.0.1:{port}"), tmp_path)
    assert "some-key" not in (tmp_path / "settings" / "pyoco" / "client.json").read_text()


def test_the_beginning_of_an_id_is_enough(tmp_path: Path) -> None:
    submit, *others = section("submit hello")
    with up(tmp_path) as port:
        server = f"http://127.0.0.1:{port}"
        run_id = json.loads(typed(submit, tmp_path, PYOCO_SERVER=server))["run_id"]
        httpx.get(f"{server}/runs/{run_id}", params={"wait": 60}, timeout=90).raise_for_status()
        for line in others:
            named = line.replace("<run_id>", run_id).replace("<short_id>", run_id[:8])
            assert typed(named, tmp_path, PYOCO_SERVER=server)


def test_runs_are_found_and_cancelled_by_filter(tmp_path: Path) -> None:
    find, why, link, dry, cancel = section("run list --status PENDING")
    with up(tmp_path) as port:
        server = f"http://127.0.0.1:{port}"
        submit = "pyoco-client submit hello --tag gpu"
        run_id = json.loads(typed(submit, tmp_path, PYOCO_SERVER=server))["run_id"]
        for line in (find, dry):
            assert [run["run_id"] for run in json.loads(typed(line, tmp_path, PYOCO_SERVER=server))] == [
                run_id
            ]
        whole = why.replace("<short_id>", run_id[:8])
        assert "No live worker" in json.loads(typed(whole, tmp_path, PYOCO_SERVER=server))["summary"]
        shown = typed(link.replace("<short_id>", run_id[:8]), tmp_path, PYOCO_SERVER=server)
        assert shown == f"{server}/#/runs/{run_id}\n"
        assert json.loads(typed(cancel, tmp_path, PYOCO_SERVER=server))["cancelled"] == [run_id]


def test_completion_scripts_are_written(tmp_path: Path) -> None:
    for line in section("completion bash"):
        typed(line, tmp_path)
        assert "pyoco-client" in (tmp_path / line.split()[-1]).read_text()


def test_the_page_names_every_command() -> None:
    page = Path(PAGE).read_text()
    rows = [line.split("|")[1:3] for line in page.splitlines() if line.startswith("| `")]
    listed = {(noun.strip(" `"), verb.strip(" `")) for noun, verbs in rows for verb in verbs.split(",")}
    assert {tuple(row.name.split()) for row in ROWS if " " in row.name} <= listed
    assert [row.name for row in ROWS if " " not in row.name and f"`{row.name}`" not in page] == []
