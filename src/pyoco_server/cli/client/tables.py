"""Tables for people: columns that fit the width of the terminal, short ids, instants with their zone.

Owns the layout. On a terminal a table is as wide as it at most: columns that matter least are left out, and
long texts are cut with "…"; JSON has everything. In a file nothing is cut and ids are whole. Control
characters are escaped.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING

from pyoco_server.cli.client.ids import short_id
from pyoco_server.printable import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

GAP = 2
FLEXIBLE_MIN = 12
ALWAYS = 0

COLOURS = {
    "COMPLETED": "green",
    "SUCCEEDED": "green",
    "FAILED": "red",
    "CANCELLED": "yellow",
    "CANCELLING": "yellow",
    "RUNNING": "cyan",
    "DISCONNECTED": "red",
}

Item = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Column:
    """`cell`: what an item shows here, by default its member of the same name. `is_cut`: it may be cut.

    `rank`: of the columns that do not fit, the one with the highest rank is left out first; 0 stays.
    """

    header: str
    cell: Callable[[Item], str]
    rank: int = ALWAYS
    is_cut: bool = False


def print_table(columns: Sequence[Column], items: Iterable[Item]) -> None:
    out = console()
    for line in table_lines(columns, items, out.width if sys.stdout.isatty() else None):
        out.print(line, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def table_lines(columns: Sequence[Column], items: Iterable[Item], width: int | None) -> list[Text]:
    cells = [[one_line(column.cell(item)) for column in columns] for item in items]
    rows = [[column.header for column in columns], *cells]
    shown, widths = fit(columns, rows, width)
    return [
        _line([row[place] for place in shown], widths, is_header=number == 0)
        for number, row in enumerate(rows)
    ]


def print_facts(facts: Mapping[str, str]) -> None:
    """One fact per line. The terminal wraps a long one, so that a link stays in one piece."""
    from rich.text import Text

    wide, out = max(map(len, facts)), console()
    for name, value in facts.items():
        line = Text(f"{name:<{wide + GAP}}", style="dim")
        line.append(one_line(value), style=f"not dim {COLOURS.get(value.split(',')[0], '')}".strip())
        out.print(line, soft_wrap=True)


def fit(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None
) -> tuple[list[int], list[int]]:
    """The places of the columns to show, and their widths. Without a width everything is shown."""
    from rich.cells import cell_len

    wanted = [max(cell_len(row[place]) for row in rows) for place in range(len(columns))]
    shown = [
        place for place in range(len(columns)) if columns[place].rank == ALWAYS or _has_text(rows, place)
    ]
    if width is None:
        return shown, [wanted[place] for place in shown]
    least = [
        min(wide, FLEXIBLE_MIN) if column.is_cut else wide
        for wide, column in zip(wanted, columns, strict=True)
    ]
    while _total([least[place] for place in shown]) > width:
        last = max(shown, key=lambda place: columns[place].rank)
        if columns[last].rank == ALWAYS:
            break
        shown.remove(last)
    widths = [least[place] for place in shown]
    _share(width - _total(widths), [wanted[place] for place in shown], widths)
    return shown, widths


def _has_text(rows: Sequence[Sequence[str]], place: int) -> bool:
    """A column that may be left out is left out if it is empty."""
    return any(row[place] for row in rows[1:])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _share(left: int, wanted: Sequence[int], widths: list[int]) -> None:
    """Give what is left to the columns that want more, the narrowest first."""
    while left > 0:
        narrow = [place for place, wide in enumerate(widths) if wide < wanted[place]]
        if not narrow:
            return
        widths[min(narrow, key=widths.__getitem__)] += 1
        left -= 1


def _line(cells: Sequence[str], widths: Sequence[int], *, is_header: bool) -> Text:
    from rich.text import Text

    line = Text()
    for number, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        piece = Text(cell, style="bold" if is_header else COLOURS.get(cell.split(",")[0], ""))
        piece.truncate(wide, overflow="ellipsis", pad=number < len(cells) - 1)
        line.append_text(piece)
        line.append(" " * GAP if number < len(cells) - 1 else "")
    return line


def console() -> Console:
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False)


# What cells show


def text(name: str) -> Callable[[Item], str]:
    return lambda item: words_of(item.get(name))


def id_of(name: str) -> Callable[[Item], str]:
    """Short on a terminal, whole in a file."""
    return lambda item: known_as(words_of(item.get(name)))


def at(name: str) -> Callable[[Item], str]:
    """An instant in the zone of this machine."""
    return lambda item: instant(item.get(name))


def known_as(id_: str) -> str:
    return short_id(id_) if sys.stdout.isatty() else id_


def words_of(value: object) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.1f}"
        case [*many] if all(isinstance(one, str) for one in many):
            return ", ".join(map(str, many))
    return json.dumps(value, ensure_ascii=False)


def instant(value: object, now: datetime | None = None, zone: tzinfo | None = None) -> str:
    """Today: the time; this year: without the year. Always with the zone, by default this machine's."""
    if value is None:
        return ""
    when = _when(value)
    if when is None:
        return words_of(value)
    when, now = when.astimezone(zone), (now or datetime.now()).astimezone(zone)
    if when.date() == now.date():
        return when.strftime("%H:%M:%S %Z")
    return when.strftime("%m-%d %H:%M %Z" if when.year == now.year else "%Y-%m-%d %H:%M %Z")


def whole_instant(value: object) -> str:
    when = _when(value)
    return words_of(value) if when is None else when.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def _when(value: object) -> datetime | None:
    try:
        match value:
            case bool():
                return None
            case int() | float():
                return datetime.fromtimestamp(value).astimezone()
            case str():
                return datetime.fromisoformat(value)
    except (ValueError, OverflowError, OSError):
        pass
    return None
