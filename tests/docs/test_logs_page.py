"""What docs/reference/logs.md shows with curl, in a browser and in Python, against a real `up`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.docs.test_examples import blocks, typed, up

PAGE = "docs/reference/logs.md"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with up(tmp_path_factory.mktemp("up")) as started:
        yield started


def finished(port: int, folder: Path) -> str:
    """A job as the page creates it, followed to its end as the page does."""
    create, follow, *_ = blocks(PAGE, "sh")[0].splitlines()
    job = str(json.loads(typed(create, port, folder).stdout)["id"])
    followed = typed(follow.replace("<id>", job), port, folder).stdout
    assert "Hello, you!" in followed
    assert followed.count("event: end\n") == 1
    return job


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")
def test_the_curl_lines_work(port: int, tmp_path: Path) -> None:
    job = finished(port, tmp_path)
    lines = [line.replace("<id>", job) for line in blocks(PAGE, "sh")[0].splitlines()[2:]]
    page, search, text, tail = lines
    assert len(json.loads(typed(page, port, tmp_path).stdout)["entries"]) == 2
    (found,) = json.loads(typed(search, port, tmp_path).stdout)["entries"]
    shown = json.loads(blocks(PAGE, "json")[0])
    assert (found["message"], set(found)) == (shown["message"], set(shown))
    printed = typed(text, port, tmp_path).stdout
    assert "Hello, you!\n" in printed
    typed(tail, port, tmp_path)
    entries = [json.loads(line) for line in (tmp_path / "job.log").read_text().splitlines()]
    assert [entry["message"] for entry in entries] == printed.splitlines()


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")
def test_the_commands_work(port: int, tmp_path: Path) -> None:
    job = finished(port, tmp_path)
    show, follow = (line.replace("<id>", job) for line in blocks(PAGE, "sh")[1].splitlines())
    assert typed(show, port, tmp_path).stdout.splitlines()[-1] == "run completed"
    assert typed(follow, port, tmp_path).stdout == "Hello, you!\n"


def test_the_python_works(port: int) -> None:
    (program,) = blocks(PAGE, "python")
    program = program.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{port}")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "run completed", done.stderr
    assert "Hello, you!" in done.stdout.splitlines()


@pytest.mark.skipif(
    shutil.which("chromium") is None,
    reason="chromium is missing: apt-get install chromium (make test does, as root on Debian)",
)
def test_the_browser_examples_work(port: int, tmp_path: Path) -> None:
    plain, with_ticket = blocks(PAGE, "js")
    job = finished(port, tmp_path)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        said: list[str] = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"http://127.0.0.1:{port}/health")
        page.evaluate(f"id => {{ {plain}; window.source = source }}", job)
        page.wait_for_function("source.readyState == EventSource.CLOSED")
        assert "Hello, you!" in said
        assert said[-1] == "completed"
        with page.expect_response(lambda answer: "/logs/stream?ticket=" in answer.url) as opened:
            page.evaluate(f"async ([id, key]) => {{ {with_ticket} }}", [job, "none"])
        assert opened.value.status == 200
        browser.close()
