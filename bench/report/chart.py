"""The chart of a comparison, as SVG: one panel per figure, one bar per system, ours in colour.

Plain text, without scripts or fonts. Colours follow the reader's light or dark theme.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.summaries import Better, short

COLUMNS = 2
PANEL_WIDTH, PANEL_GAP = 430, 30
BAR_HEIGHT, BAR_GAP = 14, 6
TITLE_HEIGHT, PANEL_BOTTOM = 26, 18
NAME_WIDTH, VALUE_WIDTH = 92, 78
MARGIN = 10
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.quiet { fill: #57606a }
.bar { fill: #afb8c1 }
.ours { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .quiet { fill: #8d96a0 }
  .bar { fill: #484f58 }
  .ours { fill: #4493f8 }
}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """`value` is None where there is nothing to draw; `text` then says why."""

    name: str
    value: float | None
    text: str = ""
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    unit: str
    better: Better
    bars: Sequence[Bar]


def chart(panels: Sequence[Panel]) -> str:
    height_of_one = panel_height(max((len(panel.bars) for panel in panels), default=0))
    rows = -(-len(panels) // COLUMNS)
    width = 2 * MARGIN + COLUMNS * PANEL_WIDTH + (COLUMNS - 1) * PANEL_GAP
    height = 2 * MARGIN + rows * height_of_one
    drawn = [
        _panel(
            panel,
            MARGIN + number % COLUMNS * (PANEL_WIDTH + PANEL_GAP),
            MARGIN + number // COLUMNS * height_of_one,
        )
        for number, panel in enumerate(panels)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
    )
    label = escape("; ".join(map(_in_words, panels)), quote=True)
    return "\n".join([f'{head} aria-label="{label}">', f"<style>{STYLE}</style>", *drawn, "</svg>", ""])


def panel_height(bars: int) -> int:
    return TITLE_HEIGHT + bars * (BAR_HEIGHT + BAR_GAP) + PANEL_BOTTOM


def bar_width(value: float, greatest: float) -> float:
    """Of the space between name and value; a bar is never invisible."""
    space = PANEL_WIDTH - NAME_WIDTH - VALUE_WIDTH
    return max(1.0, space * value / greatest) if greatest else 1.0


def _panel(panel: Panel, left: float, top: float) -> str:
    hint = f"{panel.unit}, {panel.better} is better"
    lines = [
        f'<text class="title" x="{left}" y="{top + 14}">{escape(panel.title)}'
        f' <tspan class="quiet" font-weight="400">{escape(hint)}</tspan></text>'
    ]
    greatest = max((bar.value for bar in panel.bars if bar.value is not None), default=0.0)
    for number, bar in enumerate(panel.bars):
        y = top + TITLE_HEIGHT + number * (BAR_HEIGHT + BAR_GAP)
        lines += _bar(bar, greatest, left, y)
    return "\n".join(lines)


def _bar(bar: Bar, greatest: float, left: float, top: float) -> list[str]:
    baseline, begin = top + BAR_HEIGHT - 3, left + NAME_WIDTH
    name = f'<text x="{begin - 8}" y="{baseline}" text-anchor="end">{escape(bar.name)}</text>'
    if bar.value is None:
        return [name, f'<text class="quiet" x="{begin}" y="{baseline}">{escape(bar.text)}</text>']
    width = bar_width(bar.value, greatest)
    kind = "bar ours" if bar.is_ours else "bar"
    return [
        name,
        f'<rect class="{kind}" x="{begin}" y="{top}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2"/>',
        f'<text x="{begin + width + 6:.1f}" y="{baseline}">{short(bar.value)}</text>',
    ]


def _in_words(panel: Panel) -> str:
    values = (f"{bar.name} {bar.text if bar.value is None else short(bar.value)}" for bar in panel.bars)
    return f"{panel.title} in {panel.unit}: {', '.join(values)}"
