"""`pyoco-client batch` against a real `up`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.client.test_schedules import Client
from tests.cli.programs import Programs, Up
from tests.cli.terminal import on_a_terminal


@pytest.fixture
def client(programs: Programs, shared_up: Up) -> Client:
    return Client(programs, shared_up)


def written(path: Path, count: int, *, tag: str = "demo", as_array: bool = False) -> Path:
    items = [{"flow_name": "hello", "tag": tag, "params": {"name": f"n{n}"}} for n in range(count)]
    path.write_text(json.dumps(items) if as_array else "".join(json.dumps(one) + "\n" for one in items))
    return path


@pytest.mark.parametrize("as_array", [True, False], ids=["array", "lines"])
def test_a_file_is_submitted_and_followed(client: Client, tmp_path: Path, as_array: bool) -> None:
    file = written(tmp_path / "runs", 3, as_array=as_array)
    ended = client.json("batch", "submit", file, "--wait")
    assert (ended["counts"]["COMPLETED"], ended["is_over"]) == (3, True)
    shown = client.run("batch", "show", ended["batch_id"], "--output", "text")
    assert "3 COMPLETED" in shown.output
    assert ended["batch_id"] in client.run("batch", "list", "--output", "text").output
    assert client.json("batch", "watch", ended["batch_id"])["counts"] == ended["counts"]


def test_refused_items_are_named_and_the_exit_code_is_one(client: Client, tmp_path: Path) -> None:
    file = written(tmp_path / "runs", 1)
    file.write_text(file.read_text() + '{"flow_name": ""}\n')
    program = client.run("batch", "submit", file, "--output", "text")
    assert program.ended() == 1
    assert "Item 1: flow_name:" in program.output
    assert "1 of 2 items were accepted." in program.output
    waiting = client.run("batch", "submit", file, "--wait", "--output", "json")
    assert waiting.ended() == 1
    assert json.loads(waiting.output)["refused"] == 1


def test_what_is_no_json_is_refused_with_its_line(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "runs"
    file.write_text('{"flow_name": "hello"}\nnonsense\n')
    program = client.run("batch", "submit", file)
    assert program.ended() == 1
    assert "line 2" in program.errors


def test_a_line_ends_only_at_a_line_feed(client: Client, tmp_path: Path) -> None:
    """Texts in JSON, also in answers, may have other separators of lines, such as U+2028."""
    file = tmp_path / "runs"
    wrong = {"flow_name": "hello", "params": {"name": "one\u2028two\x85"}, "tags": "\u2028"}
    rows = [wrong, wrong | {"tags": ["a\u2028b"]}, wrong | {"tags": ["demo"]}]
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows), encoding="utf-8")
    answer = json.loads(client.run("batch", "submit", file, "--output", "json").output)
    assert ["error" in one for one in answer["items"]] == [True, True, False]


def test_the_same_file_with_the_same_key_runs_once(client: Client, tmp_path: Path) -> None:
    file = written(tmp_path / "runs", 2)
    once = client.json("batch", "submit", file, "--key", "nightly")
    assert client.json("batch", "submit", file, "--key", "nightly") == once


def test_a_batch_is_cancelled(client: Client, tmp_path: Path) -> None:
    made = client.json("batch", "submit", written(tmp_path / "runs", 3, tag="nobody"))
    answer = client.json("batch", "cancel", made["batch_id"], "--reason", "a wrong file")
    assert answer["cancel_reason"] == "a wrong file"
    program = client.run("batch", "watch", made["batch_id"])
    assert program.ended() == 3
    assert json.loads(program.output)["counts"]["CANCELLED"] == 3


def test_a_terminal_shows_a_bar(shared_up: Up, tmp_path: Path) -> None:
    file = written(tmp_path / "runs", 3)
    shown = on_a_terminal(
        "pyoco-client", "batch", "submit", file, "--wait", columns=100, rows=40, PYOCO_SERVER=shared_up.url
    )
    assert "3 of 3 items were accepted." in shown
    assert "Runs     3 COMPLETED" in shown
