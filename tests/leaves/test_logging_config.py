"""The form of a log line, and that logging never stops the program."""

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import structlog

from pyoco_server.errors import Unavailable
from pyoco_server.logging_config import configure_logging

REQUIRED = {"ts", "service", "level", "logger", "message", "pathname", "lineno", "func"}


@pytest.fixture(autouse=True)
def _root_logger_as_before(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("PYOCO_")]:
        monkeypatch.delenv(variable)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


def lines(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def divide() -> float:
    return 1 / int("0")


def test_a_line_has_every_required_field(out: io.StringIO) -> None:
    configure_logging("pyoco-server:worker", stream=out)
    logging.getLogger("some.place").info("hello %s", "world")
    (line,) = lines(out)
    assert line.keys() >= REQUIRED
    assert line["service"] == "pyoco-server:worker"
    assert (line["level"], line["logger"], line["message"]) == ("INFO", "some.place", "hello world")
    assert line["pathname"] == __file__
    assert line["func"] == "test_a_line_has_every_required_field"
    assert line["lineno"] > 0
    assert not {"exc_type", "exc_info", "_record"} & line.keys()


def test_extra_fields_stand_at_top_level(out: io.StringIO) -> None:
    configure_logging(stream=out)
    extra = {
        "run_id": "r", "flow_name": "f", "tag": "t", "worker_id": "w", "err_id": "ERR-PYOCO-0007",
        "msg_id": "MSG-PYOCO-0007", "reason": "execution_error", "event": "RunFailed", "count": 3,
    }  # fmt: skip
    logging.getLogger("a").warning("failed", extra=extra)
    (line,) = lines(out)
    assert {key: line[key] for key in extra} == extra
    assert line["message"] == "failed"


def test_an_extra_field_does_not_replace_a_required_one(out: io.StringIO) -> None:
    configure_logging("s", stream=out)
    logging.getLogger("a").info("x", extra={"service": "forged", "level": "y"})
    (line,) = lines(out)
    assert (line["service"], line["level"]) == ("s", "INFO")
    assert (line["extra_service"], line["extra_level"]) == ("forged", "y")


def test_an_error_carries_the_original_exception_and_its_origin(out: io.StringIO) -> None:
    configure_logging(stream=out)
    try:
        divide()
    except ZeroDivisionError:
        logging.getLogger("a").exception("failed", extra={"run_id": "r"})
    (line,) = lines(out)
    assert (line["level"], line["run_id"]) == ("ERROR", "r")
    assert (line["exc_type"], line["exc_message"]) == ("ZeroDivisionError", "division by zero")
    assert "in divide" in line["exc_traceback"]
    assert line["exc_origin"]["file"] == __file__
    assert line["exc_origin"]["func"] == "divide"
    assert line["exc_origin"]["line"] > 0


def test_an_error_of_ours_gives_the_line_its_ids_unless_the_line_has_its_own(out: io.StringIO) -> None:
    configure_logging(stream=out)
    log = logging.getLogger("x")
    log.warning("not yet", exc_info=Unavailable("The broker is away."))
    log.warning("the end", exc_info=Unavailable("The broker is away."), extra={"err_id": "ERR-PYOCO-0008"})
    log.warning("defect", exc_info=ValueError("7"))
    plain, own, foreign = lines(out)
    assert (plain["err_id"], plain["msg_id"]) == ("ERR-PYOCO-0003", "MSG-PYOCO-0003")
    assert (own["err_id"], own.get("msg_id")) == ("ERR-PYOCO-0008", None)
    assert "err_id" not in foreign


def test_the_traceback_can_be_left_out(out: io.StringIO) -> None:
    configure_logging(stream=out, include_traceback=False)
    try:
        divide()
    except ZeroDivisionError as error:
        logging.getLogger("a").error("failed", exc_info=error)
    (line,) = lines(out)
    assert "exc_traceback" not in line
    assert line["exc_type"] == "ZeroDivisionError"
    assert line["exc_origin"]["func"] == "divide"


def test_an_error_that_was_never_raised_has_no_origin(out: io.StringIO) -> None:
    configure_logging(stream=out)
    logging.getLogger("a").error("failed", exc_info=ValueError("never raised"))
    (line,) = lines(out)
    assert line["exc_message"] == "never raised"
    assert "exc_origin" not in line


def test_calling_it_twice_does_not_double_lines(out: io.StringIO) -> None:
    configure_logging("first", stream=out)
    configure_logging("second", stream=out)
    logging.getLogger("a").info("once")
    assert [line["service"] for line in lines(out)] == ["second"]


def test_other_handlers_of_the_root_logger_stay(out: io.StringIO) -> None:
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    configure_logging(stream=out)
    assert other in logging.getLogger().handlers


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_values_that_json_cannot_say_become_their_representation(out: io.StringIO) -> None:
    circle: list[Any] = []
    circle.append(circle)
    configure_logging(stream=out)
    logger = logging.getLogger("a")
    logger.info("set", extra={"value": {7}, "path": Path("x")})
    logger.info("circle", extra={"value": circle, "count": 2})
    logger.info("keys", extra={"value": {(1, 2): 3}})
    logger.info("unspeakable", extra={"value": Unspeakable()})
    by_message = {line["message"]: line for line in lines(out)}
    assert by_message["set"]["value"] == "{7}"
    assert by_message["set"]["path"] == repr(Path("x"))
    assert (by_message["circle"]["value"], by_message["circle"]["count"]) == ("[[...]]", 2)
    assert by_message["keys"]["value"] == "{(1, 2): 3}"
    assert "cannot be shown" in by_message["unspeakable"]["value"]


def test_a_line_break_in_a_message_does_not_break_the_line(out: io.StringIO) -> None:
    configure_logging(stream=out)
    logging.getLogger("a").info("one\ntwo")
    assert [line["message"] for line in lines(out)] == ["one\ntwo"]


@pytest.mark.parametrize("letter", ["\x7f", "\x85", "\x9b", "\u2028", "\u202e"])
def test_no_control_character_is_in_a_line_of_json(out: io.StringIO, letter: str) -> None:
    """A terminal obeys C1 as it obeys ESC, and readers of lines break them at U+0085 and U+2028."""
    configure_logging(stream=out)
    logging.getLogger("a").info(f"が{letter}", extra={"error": f'{letter}{{"level":"CRITICAL"}}'})
    assert letter not in out.getvalue()
    (line,) = lines(out)
    assert (line["message"], line["error"][0]) == (f"が{letter}", letter)


def test_what_the_stream_cannot_say_is_escaped() -> None:
    raw = io.BytesIO()
    configure_logging(stream=io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    logging.getLogger("a").info("が😀", extra={"half": "\ud800"})
    line = json.loads(raw.getvalue())
    assert (line["message"], line["half"]) == ("が😀", "\ud800")


def test_structlog_loggers_come_out_the_same(out: io.StringIO) -> None:
    configure_logging("s", stream=out)
    try:
        divide()
    except ZeroDivisionError:
        structlog.get_logger("theirs").exception("failed", run_id="r")
    (line,) = lines(out)
    assert line.keys() >= REQUIRED
    assert (line["logger"], line["message"], line["run_id"]) == ("theirs", "failed", "r")
    assert line["exc_type"] == "ZeroDivisionError"
    assert line["func"] == "test_structlog_loggers_come_out_the_same"


def test_bound_context_stands_on_every_line(out: io.StringIO) -> None:
    configure_logging(stream=out)
    with structlog.contextvars.bound_contextvars(run_id="r"):
        logging.getLogger("a").info("inside")
    logging.getLogger("a").info("outside")
    assert [line.get("run_id") for line in lines(out)] == ["r", None]


def test_extra_named_like_a_member_of_structlog_is_an_ordinary_field(out: io.StringIO) -> None:
    configure_logging(stream=out)
    logging.getLogger("a").info("said", extra={"event": "e", "_record": 1})
    (line,) = lines(out)
    assert (line["message"], line["event"], line["_record"]) == ("said", "e", 1)


def test_an_empty_message_is_an_empty_string(out: io.StringIO) -> None:
    configure_logging(stream=out, with_structlog=False)
    logging.getLogger("a").info("")
    assert [line["message"] for line in lines(out)] == [""]


def test_text_is_for_people(out: io.StringIO) -> None:
    configure_logging("s", fmt="text", stream=out)
    try:
        divide()
    except ZeroDivisionError:
        logging.getLogger("a").exception("failed", extra={"run_id": "r"})
    head, *rest = out.getvalue().splitlines()
    assert "ERROR" in head
    assert "a: failed run_id=r (s " in head
    assert rest[-1] == "    ZeroDivisionError: division by zero"


def test_times_are_utc_or_local_with_their_offset(out: io.StringIO) -> None:
    configure_logging(stream=out)
    logging.getLogger("a").info("utc")
    configure_logging(stream=out, utc=False)
    logging.getLogger("a").info("local")
    utc, local = (line["ts"] for line in lines(out))
    assert utc.endswith("Z")
    assert datetime.fromisoformat(local).tzinfo is not None
    assert not local.endswith("Z")


def test_the_environment_gives_the_settings(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "error")
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "text")
    configure_logging(stream=out)
    logging.getLogger("a").warning("not to be seen")
    logging.getLogger("a").error("loud")
    assert "loud" in out.getvalue()
    assert "not to be seen" not in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_an_argument_wins_over_the_environment(out: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "ERROR")
    configure_logging(level=logging.DEBUG, stream=out)
    logging.getLogger("a").debug("heard")
    assert [line["message"] for line in lines(out)] == ["heard"]


def test_a_wrong_setting_is_told_on_stderr_and_costs_only_itself(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYOCO_LOG_LEVEL", "LOUD")
    monkeypatch.setenv("PYOCO_LOG_FORMAT", "text")
    configure_logging(stream=out)
    told = json.loads(capsys.readouterr().err)
    assert (told["err_id"], told["msg_id"]) == ("ERR-PYOCO-0013", "MSG-PYOCO-0013")
    assert "PYOCO_LOG_LEVEL is 'LOUD'" in told["reason"]
    assert logging.getLogger().level == logging.INFO
    logging.getLogger("a").info("still text")
    assert not out.getvalue().startswith("{")


def test_a_setting_of_something_else_does_not_matter_here(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYOCO_HTTP_PORT", "many")
    configure_logging(stream=out)
    assert capsys.readouterr().err == ""


def test_a_closed_stream_is_told_once_and_raises_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    stream.close()
    logging.getLogger("a").info("one")
    logging.getLogger("a").info("two")
    told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["err_id"] for line in told] == ["ERR-PYOCO-0013"]


def test_a_program_whose_stdout_and_stderr_are_gone_goes_on() -> None:
    program = """
import logging, sys
from pyoco_server.logging_config import configure_logging
configure_logging()
sys.stdout.close(); sys.stderr.close()
logging.getLogger("a").error("nobody hears this")
sys.stdout = sys.stderr = None
logging.getLogger("a").error("nor this")
raise SystemExit(7)
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 7


def test_lines_go_to_stdout_as_it_is_when_they_are_written(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging()
    logging.getLogger("a").info("x")
    assert json.loads(capsys.readouterr().out)["message"] == "x"
