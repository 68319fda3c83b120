"""The tutorial: its commands in their order, what they print, and the same commands in both languages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.programs import clean_environment
from tests.docs.test_examples import BIN, ROOT, blocks, typed, up

PAGE = "docs/tutorial/quickstart.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TRANSLATED = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "README.ja.md", *ROOT.glob("docs/**/*.ja.md"))
)


@pytest.mark.parametrize("page", TRANSLATED)
def test_a_page_in_japanese_has_the_code_of_its_english_page(page: str) -> None:
    english, japanese = (
        BLOCK.findall((ROOT / name).read_text(encoding="utf-8"))
        for name in (page.replace(".ja.md", ".md"), page)
    )
    assert japanese == english


def test_the_readme_is_short() -> None:
    for page in ("README.md", "README.ja.md"):
        assert len((ROOT / page).read_text(encoding="utf-8").splitlines()) <= 120


def test_the_installation_names_the_package_and_its_command() -> None:
    install = blocks(PAGE, "sh")[0].splitlines()
    assert (
        install[2:]
        == blocks("README.md", "sh")[0].splitlines()
        == ["pip install pyoco-server", "pyoco-server up"]
    )
    assert (BIN / "pyoco-server").is_file()


def test_the_demo_flows_do_what_the_tutorial_says(tmp_path: Path) -> None:
    _, look, cancel, *_ = (block.splitlines() for block in blocks(PAGE, "sh"))
    with up(tmp_path) as port:
        assert json.loads(typed(look[0], port, tmp_path).stdout)["status"] == "COMPLETED"
        assert "hello" in typed(look[1], port, tmp_path).stdout
        started = json.loads(typed(cancel[0], port, tmp_path).stdout)["run_id"]
        cancelled = typed(cancel[1].replace("<run_id>", started[:8]), port, tmp_path)
        assert (cancelled.returncode, json.loads(cancelled.stdout)["status"]) == (0, "CANCELLED")


def test_a_flow_of_ones_own_succeeds_fails_and_is_retried(tmp_path: Path) -> None:
    flow, program = blocks(PAGE, "python")
    (tmp_path / "my_flows.py").write_text(flow)
    _, _, _, start, run, forget, retry, _ = (block.splitlines() for block in blocks(PAGE, "sh"))
    _, printed, problem = blocks(PAGE, "text")
    with up(tmp_path, *start[0].split()[2:]) as port:

        def typed_for(line: str, run_id: str = "") -> subprocess.CompletedProcess[str]:
            return typed(line.replace("<run_id>", run_id), port, tmp_path)

        def made(line: str, run_id: str = "") -> Any:
            return json.loads(typed_for(line, run_id).stdout)

        submit, result, logs = run
        done = made(submit)
        assert _plain(
            typed_for(result, done["run_id"]).stdout + typed_for(logs, done["run_id"]).stdout
        ) == _plain(printed)
        failed = typed_for(forget[0])
        assert (failed.returncode, json.loads(failed.stdout)["error"]) == (2, problem.strip())
        again = made(retry[0], json.loads(failed.stdout)["run_id"])["run_id"]
        program = program.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{port}")
        asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert asked.stdout == "31\n", asked.stderr
        watched = typed(f"pyoco-client watch {again} --until-terminal", port, tmp_path)
        assert watched.returncode == 0, watched.stderr
        listed = typed("curl -s localhost:8000/flows", port, tmp_path).stdout
        assert "Measure the length of a page" in listed


def _plain(text: str) -> str:
    """Without what differs from run to run: durations and the name of the worker."""
    text = re.sub(r"[\d.]+ (?:m?s|µs)\b", "N ms", text)
    return re.sub(r"on worker \S+", "on worker <worker>", text).strip()


def test_a_worker_serves_a_tag_of_its_own(tmp_path: Path) -> None:
    """It finds the broker of its folder."""
    (tmp_path / "my_flows.py").write_text(blocks(PAGE, "python")[0])
    program, *options = blocks(PAGE, "sh")[-1].split()
    with up(tmp_path, "--no-worker") as port:
        environment = clean_environment(PYOCO_DATA_DIR="data")
        worker = subprocess.Popen([BIN / program, *options], cwd=tmp_path, env=environment)
        try:
            submit = "pyoco-client submit measure --tag gpu --param url=https://example.org --wait"
            assert json.loads(typed(submit, port, tmp_path).stdout)["status"] == "COMPLETED"
        finally:
            worker.terminate()
            assert worker.wait(60) == 0
