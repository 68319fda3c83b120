"""The layout of tables: what is left out, what is cut, and how instants look."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from pyoco_server.cli.client.tables import Column, fit, instant, table_lines, text

COLUMNS = (
    Column("ID", text("id")),
    Column("NAME", text("name"), is_cut=True),
    Column("NOTE", text("note"), rank=1, is_cut=True),
    Column("TAG", text("tag"), rank=2),
)
ITEM = {"id": "0a1b2c3d", "name": "a-flow-with-a-long-name-indeed", "note": "n" * 30, "tag": "gpu-large"}


def drawn(width: int | None, **changed: str) -> list[str]:
    return [line.plain.rstrip() for line in table_lines(COLUMNS, [ITEM | changed], width)]


def test_a_wide_terminal_and_a_file_show_everything() -> None:
    for width in (None, 200):
        header, row = drawn(width)
        assert header.split() == ["ID", "NAME", "NOTE", "TAG"]
        assert row.split() == list(ITEM.values())


@pytest.mark.parametrize("width", range(24, 120))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, drawn(width))) <= width


def test_the_least_important_column_is_left_out_first_and_long_texts_are_cut() -> None:
    header, row = drawn(60)
    assert header.split() == ["ID", "NAME", "NOTE", "TAG"]
    assert row.startswith("0a1b2c3d  a-flow-with")
    assert "…" in row
    assert drawn(40)[0].split() == ["ID", "NAME", "NOTE"]
    assert drawn(30)[0].split() == ["ID", "NAME"]


def test_an_empty_column_that_may_be_left_out_is_left_out() -> None:
    assert drawn(200, note="", tag="")[0].split() == ["ID", "NAME"]


def test_wide_characters_count_as_two_columns() -> None:
    columns = (Column("NAME", text("name"), is_cut=True), Column("TAG", text("tag")))
    _, (wide, _) = fit(columns, [["NAME", "TAG"], ["夜間バッチ", "x"]], 80)
    assert wide == 10


def test_a_cell_has_one_line_and_no_control_characters() -> None:
    _, row = drawn(None, name="a\nb\x1b]0;t\x07")
    assert "a\\nb\\x1b]0;t\\x07" in row


@pytest.mark.parametrize(
    ("when", "shown"),
    [
        (datetime(2026, 5, 4, 9, 8, 7, tzinfo=UTC).timestamp(), "09:08:07 UTC"),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp(), "01-02 03:04 UTC"),
        (datetime(2025, 12, 31, 3, 4, 5, tzinfo=UTC).timestamp(), "2025-12-31 03:04 UTC"),
        ("2026-01-02T03:04:05+00:00", "01-02 03:04 UTC"),
        ("not an instant", "not an instant"),
        (None, ""),
    ],
)
def test_an_instant_has_its_zone_and_no_more_than_it_needs(when: object, shown: str) -> None:
    now = datetime(2026, 5, 4, 12, tzinfo=UTC)
    assert instant(when, now, ZoneInfo("UTC")) == shown
