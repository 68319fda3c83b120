"""Whatever a task returns or raises: its run ends, says why, and the slot goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pyoco_server.lifecycle.run import Run
from pyoco_server.lifecycle.status import OutputKept, RunStatus
from pyoco_server.store.store import Store
from tests.worker.slots.slot_stage import ended, lines, serving, started
from tests.worker.stage import output_of

SPEC = f"{Path(__file__).with_name('hostile_flows.py')}:resolve"


async def one_run(store: Store, flow: str, marks: Path, **params: object) -> Run:
    async with serving(store.config, spec=SPEC):
        return await ended(store, await started(store, flow, marks, **params))


async def test_two_megabytes_are_kept_beside_the_log_and_taken_after_a_crash(
    store: Store, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    run = await one_run(store, "large", marks, dies=True)
    assert (run.status, run.crashes) == (RunStatus.COMPLETED, 1)
    assert lines(marks) == ["large", "measure", "measure"]
    large, measured = run.tasks["large"], run.tasks["measure"]
    assert large.kept is OutputKept.REFERENCED
    assert output_of(run, "large")["bytes"] > 1_900_000
    assert measured.output == [20_000, "tuple"], "the rows are tuples again, as they were returned"


async def test_what_cannot_be_kept_is_computed_again_and_the_log_says_so(
    store: Store, tmp_path: Path
) -> None:
    marks = tmp_path / "marks"
    run = await one_run(store, "unserialisable", marks)
    assert (run.status, run.crashes) == (RunStatus.COMPLETED, 1)
    assert lines(marks) == ["handle", "handle"]
    assert run.tasks["handle"].kept is OutputKept.UNSERIALISABLE
    said = [entry.message for entry in await store.logs.entries(run.run_id)]
    assert any("its result cannot be kept as JSON" in text for text in said)


async def test_an_exception_with_a_huge_message_ends_the_run_with_both_its_ends(
    store: Store, tmp_path: Path
) -> None:
    run = await one_run(store, "huge_exception", tmp_path / "marks")
    assert run.status is RunStatus.FAILED
    assert run.error is not None
    assert run.error.startswith("much much")
    assert len(run.error) <= 8_192


async def test_endless_recursion_ends_the_run_and_not_the_slot(store: Store, tmp_path: Path) -> None:
    run = await one_run(store, "recursion", tmp_path / "marks")
    assert (run.status, run.crashes) == (RunStatus.FAILED, 0)
    assert "recursion" in str(run.error)


async def test_a_run_over_its_time_fails_whoever_set_the_limit(store: Store, tmp_path: Path) -> None:
    by_author = await one_run(store, "limited", tmp_path / "marks")
    assert (by_author.status, by_author.error) == (
        RunStatus.FAILED,
        "The run exceeded its timeout of 0.2s",
    )
    async with serving(replace(store.config, run_timeout_sec=0.3), spec=SPEC):
        by_operator = await ended(store, await started(store, "slow", tmp_path / "marks"))
    assert by_operator.error == "The run exceeded its timeout of 0.3s"
