"""Nothing that is shown to people can steer their terminal or forge a line."""

import json
import re

import pytest

from pyoco_server import printable

HARMFUL = ["\x00", "\x07", "\x1b", "\x7f", "\x85", "\x9b", "\u061c", "\u200f", "\u2028", "\u202e", "\u2066"]


@pytest.mark.parametrize("letter", HARMFUL)
def test_a_control_character_is_shown_as_an_escape(letter: str) -> None:
    for shown in (printable.one_line(f"a{letter}b"), printable.lines(f"a{letter}b")):
        assert letter not in shown
        assert re.fullmatch(r"a\\[xu][0-9a-f]+b", shown)
    assert printable.has_control(letter)
    assert printable.has_control_beside_breaks(letter)
    assert not re.search(printable.ONE_LINE_PATTERN, letter)
    assert not re.search(printable.LINES_PATTERN, letter)


def test_line_breaks_and_tabs_stay_in_text_of_several_lines_only() -> None:
    assert printable.lines("a\n\tb") == "a\n\tb"
    assert printable.one_line("a\n\tb\r") == "a\\n\\tb\\r"
    assert printable.has_control("a\n")
    assert not printable.has_control_beside_breaks("a\n\tb")
    assert re.search(printable.LINES_PATTERN, "a\n\tb")
    assert not re.search(printable.ONE_LINE_PATTERN, "a\nb")


def test_other_letters_stay_as_they_are() -> None:
    text = "が ü 😀 [red]"
    assert printable.one_line(text) == printable.lines(text) == printable.coloured_line(text) == text
    assert not printable.has_control(text)


def test_of_a_line_with_colours_only_the_colours_are_kept_and_they_end_with_it() -> None:
    line = "\x1b[31mred\x1b]0;title\x07\x1b[2J\x1b[1;4m!"
    assert printable.coloured_line(line) == "\x1b[31mred\\x1b]0;title\\x07\\x1b[2J\x1b[1;4m!\x1b[0m"


@pytest.mark.parametrize("letter", HARMFUL)
def test_json_keeps_its_value_and_shows_no_control_character(letter: str) -> None:
    written = printable.json_text(json.dumps({"a": f"ü{letter}"}, ensure_ascii=False, indent=2))
    assert letter not in written
    assert json.loads(written) == {"a": f"ü{letter}"}
