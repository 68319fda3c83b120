"""The commands of docs/reference/cli.md, in their order, against a real `up`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

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
        for line in others:
            named = line.replace("<run_id>", run_id).replace("<short_id>", run_id[:8])
            assert typed(named, tmp_path, PYOCO_SERVER=server)
