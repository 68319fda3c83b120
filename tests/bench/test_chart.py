"""The chart: well-formed SVG, bars in proportion, readable in both themes."""

from xml.etree import ElementTree

from bench.report.chart import Bar, Panel, bar_width, chart
from bench.report.tables import table
from bench.summaries import Better

SVG = "{http://www.w3.org/2000/svg}"


def _panel() -> Panel:
    bars = [Bar("we & ours", 100.0, is_ours=True), Bar("they", 50.0), Bar("others", None, "16 of 20 lost")]
    return Panel("W2", "runs/s", Better.MORE, bars)


def test_the_chart_is_well_formed_and_says_its_values_in_words() -> None:
    root = ElementTree.fromstring(chart([_panel(), _panel(), _panel()]))
    assert "we & ours 100" in root.attrib["aria-label"]
    assert "others 16 of 20 lost" in root.attrib["aria-label"]
    assert len(root.findall(f"{SVG}rect")) == 6  # what was lost has no bar


def test_bars_are_in_proportion_and_never_invisible() -> None:
    assert bar_width(50.0, 100.0) * 2 == bar_width(100.0, 100.0)
    assert bar_width(0.001, 100.0) == 1.0
    assert bar_width(0.0, 0.0) == 1.0


def test_our_bar_stands_out_and_colours_follow_the_theme() -> None:
    drawn = chart([_panel()])
    assert drawn.count('class="bar ours"') == 1
    assert "prefers-color-scheme: dark" in drawn


def test_a_chart_without_results_is_empty_but_valid() -> None:
    assert ElementTree.fromstring(chart([])).findall(f"{SVG}rect") == []


def test_a_table_is_aligned() -> None:
    assert table(["", "ours"], [["W2 runs/s", "5"]]) == (
        "|           | ours |\n| --------- | ---- |\n| W2 runs/s | 5    |"
    )
