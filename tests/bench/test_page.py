"""The page of measurements: which results are shown, and where they are put."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.catalogue import BENCHES, LONG
from bench.peers.systems import OURS
from bench.report import page
from bench.report.own_figures import SHOWN, own_table

BLOCKS = ("peers", "driven", "processes", "figures")


def _peers() -> dict[str, Any]:
    cost = {"cpu_us": 500.0, "voluntary": 3.0, "forced": 1.0}
    ours = {"w2": {"runs_per_sec": 900.0, "others_cores": 0.25, "roles": {"worker": cost}}}
    return {
        "kind": "peers",
        "commit": "abc1234",
        "at": "2026-11-18 09:00",
        "cores": 2,
        "python": {"version": "3.11.7", "pgo": "without PGO", "sample_ms": 60.0},
        "systems": {
            OURS: {"title": "pyoco-server", "rounds": [ours, ours]},
            "restate": {"title": "Restate", "rounds": [{"w2": {"runs_per_sec": 450.0}}]},
            "celery": {"title": "Celery", "rounds": [], "unavailable": "needs redis-server"},
        },
    }


def test_a_block_is_replaced_and_the_text_around_it_stays() -> None:
    text = "before\n<!-- begin: peers -->\nold \\1\n<!-- end: peers -->\nafter\n"
    replaced = page.replace_block(text, "peers", r"new \1")
    assert replaced == "before\n<!-- begin: peers -->\n\nnew \\1\n\n<!-- end: peers -->\nafter\n"
    assert page.replace_block(replaced, "peers", r"new \1") == replaced


def test_a_block_that_is_missing_is_an_error() -> None:
    with pytest.raises(ValueError, match="no block peers"):
        page.replace_block("nothing", "peers", "new")


def test_results_are_shown_with_their_conditions_and_ratios() -> None:
    made = page.blocks({"peers": _peers()})
    assert "Measured on 2026-11-18 at commit abc1234: 2 cores, Python 3.11.7 (without PGO)." in made["peers"]
    assert "Medians of 2 rounds in turns. Other processes used up to 0.2 cores." in made["peers"]
    assert "450 (2.00×)" in made["peers"]
    assert "Preliminary." in page.blocks({"peers": _peers() | {"note": "Preliminary."}})["peers"]
    assert "Celery is missing: needs redis-server." in made["peers"]
    assert "worker" in made["processes"]
    assert "figures" not in made


def test_the_chart_has_a_panel_for_each_figure_that_was_measured() -> None:
    (only,) = page.panels(_peers())
    assert only.title == "W2 no-op runs"
    assert [(bar.name, bar.value, bar.is_ours) for bar in only.bars] == [
        ("pyoco-server", 900.0, True),
        ("Restate", 450.0, False),
    ]


def test_the_command_writes_page_and_chart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "peers.json"
    results.write_text(json.dumps(_peers()))
    written, drawn = tmp_path / "measurements.md", tmp_path / "measurements.svg"
    written.write_text(page.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", written)
    monkeypatch.setattr(page, "CHART", drawn)
    page.main([str(results)])
    assert "450 (2.00×)" in written.read_text(encoding="utf-8")
    ElementTree.fromstring(drawn.read_text(encoding="utf-8"))


def test_the_page_of_the_documents_has_every_block_and_the_chart() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert [name for name in BLOCKS if f"<!-- begin: {name} -->" not in text] == []
    assert "img/measurements.svg" in text
    ElementTree.fromstring(page.CHART.read_text(encoding="utf-8"))


def test_every_shown_figure_is_of_a_bench_that_exists() -> None:
    titles = {title for benches in (BENCHES | LONG).values() for title, _ in benches}
    assert {shown.bench for shown in SHOWN} - titles == set()


def test_only_what_was_measured_is_shown() -> None:
    found = own_table({"cancel": {"POST cancel → CANCELLED, p50 ms": 5.44}})
    assert found.splitlines()[2:] == ["| cancel → CANCELLED, p50 ms | 5.44     | ≤ 5  |"]
