"""The comparison with other systems: medians of rounds, cells of the table, sizes, what is installed."""

from pathlib import Path
from typing import Any

import pytest
from bench.conditions import pgo
from bench.peers import compare, events, figures, install
from bench.peers.systems import OURS, SYSTEMS, USUAL
from bench.peers.workloads import SMALL, WORKLOADS, Sizes, medians

FIGURES = {figure.workload: figure for figure in figures.FIGURES}


def test_medians_are_taken_of_each_number_also_of_the_costs_by_process() -> None:
    rounds = [
        {"p50_ms": 3.0, "roles": {"worker": {"cpu_us": 100.0}}},
        {"p50_ms": 5.0, "roles": {"worker": {"cpu_us": 300.0}, "ended children": {"cpu_us": 30.0}}},
        {"p50_ms": 4.0, "roles": {"worker": {"cpu_us": 200.0}}},
    ]
    assert medians(rounds) == {
        "p50_ms": 4.0,
        "roles": {"worker": {"cpu_us": 200.0}, "ended children": {"cpu_us": 0.0}},
    }
    assert medians([]) == {}


def test_a_slow_system_gets_fewer_runs_but_as_many_that_sleep() -> None:
    scaled = Sizes().scaled(0.2)
    assert (scaled.idle, scaled.burst, scaled.chains, scaled.fans) == (40, 400, 40, 4)
    assert (scaled.naps, scaled.stored) == (20, 20_000)
    assert SMALL.scaled(0.01).fans == 2


def test_a_cell_shows_the_median_and_by_how_much_ours_is_better() -> None:
    rounds: list[dict[str, Any]] = [
        {"w2": {"runs_per_sec": 500.0}},
        {"w2": {"runs_per_sec": 700.0}},
        {"start": {}},
    ]
    assert figures.cell(FIGURES["w2"], rounds) == "600"
    assert figures.cell(FIGURES["w2"], rounds, ours=1200.0) == "600 (2.00×)"


def test_a_cell_says_what_was_lost_what_failed_and_what_is_not_there() -> None:
    lost = [{"w5": {"seconds": None, "runs": 20, "completed": 4, "waited_sec": 90.0}}]
    assert figures.cell(FIGURES["w5"], lost) == "16 of 20 missing after 90 s"
    assert figures.cell(FIGURES["w5"], [{"w5": {"error": "TimeoutError"}}]) == "failed"
    assert figures.cell(FIGURES["list"], [{"list": None}]) == "–"
    assert figures.cell(FIGURES["list"], [{"list": {"p50_ms": 2.0, "stored": 4000}}]) == "2.00 at 4,000"


def test_the_table_has_a_column_for_each_system_and_says_why_one_is_missing() -> None:
    results: dict[str, Any] = {
        "systems": {
            OURS: {"rounds": [{"w1": {"p50_ms": 2.0, "roles": {}}}]},
            "restate": {"rounds": [{"w1": {"p50_ms": 6.0}, "w2": {"error": "RunsMissing: 3 of 9"}}]},
            "temporal": {"rounds": [], "unavailable": "there is no such package"},
        }
    }
    shown = compare.show(results)
    assert "6.00 (3.00×)" in shown
    assert "temporal: there is no such package" in shown
    assert "restate, w2: RunsMissing: 3 of 9" in shown


def test_all_systems_are_measured_if_none_is_named_and_ours_always() -> None:
    assert USUAL == ["restate", "celery", "dramatiq", "taskiq", "dbos", "temporal"]
    assert OURS in SYSTEMS
    assert compare.parse(["restate", "--only", "w2,w3"]).only == "w2,w3"


@pytest.mark.parametrize("arguments", [["nobody"], ["--only", "w9"]])
def test_an_unknown_system_or_workload_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        compare.parse(arguments)
    assert "no such" in capsys.readouterr().err


def test_every_figure_is_of_a_workload() -> None:
    assert {figure.workload for figure in figures.FIGURES + figures.CPU} == set(WORKLOADS)


def test_tasks_record_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(events.VARIABLE, str(tmp_path / "events"))
    events.record(events.START, 7)
    events.record(events.END, 7)
    assert [(event.what, event.number) for event in events.read(tmp_path / "events")] == [
        (events.START, 7),
        (events.END, 7),
    ]


@pytest.mark.parametrize(
    ("arguments", "prefix", "said"),
    [
        ("'--enable-optimizations' '--with-lto'", "/usr/local", "with PGO"),
        ("'--enable-shared'", "/usr", "built by the distribution"),
        ("'--enable-shared'", "/opt/python", "without PGO"),
    ],
)
def test_a_python_is_named_with_its_build(arguments: str, prefix: str, said: str) -> None:
    assert pgo(arguments, prefix) == said


def test_a_program_that_cannot_be_installed_is_the_reason_of_the_column(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda *_args, **_named: None)
    with pytest.raises(install.NotInstallable, match="needs redis-server"):
        install.install("celery", SYSTEMS["celery"], "python3", tmp_path)
    with pytest.raises(install.NotInstallable, match="needs npm"):
        install.install("restate", SYSTEMS["restate"], "python3", tmp_path)
