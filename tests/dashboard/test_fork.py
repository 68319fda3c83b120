"""A run that is over is executed again from a task on: chosen by mouse or keyboard, said before it is so."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.cli.programs import Up
from tests.dashboard.browser import PHONE, Visit, visit
from tests.dashboard.test_access import AXE, violations

ONCE = {"fetch": 1, "left": 1, "right": 1, "join": 1}


@pytest.fixture
def seen(tmp_path: Path) -> Path:
    return tmp_path / "seen.txt"


def executed(seen: Path) -> Counter[str]:
    return Counter(seen.read_text().split())


def over(shown: Visit, seen: Path) -> str:
    run_id = shown.start("counted", json.dumps({"seen": str(seen)}))
    shown.status_is("COMPLETED")
    assert executed(seen) == ONCE
    return run_id


def the_run(site: Up, run_id: str) -> dict[str, Any]:
    run: dict[str, Any] = httpx.get(f"{site.url}/runs/{run_id}", params={"include": "records"}).json()
    return run


def near_the_graph(shown: Visit) -> Locator:
    graph = shown.page.get_by_role("region", name=shown.word("run.graph"), exact=True)
    return graph.get_by_role("button", name=shown.word("run.fork"), exact=True)


def started(shown: Visit, old: str) -> str:
    shown.dialog_button("run.againDo").click()
    shown.page.wait_for_url(lambda url: old not in url)
    shown.status_is("COMPLETED")
    return shown.run_id


def test_fork_from_a_task_in_the_middle(shown: Visit, site: Up, seen: Path) -> None:
    old = over(shown, seen)
    expect(near_the_graph(shown)).to_have_count(0)
    shown.page.locator('.node[data-node="left"]').click()
    near_the_graph(shown).click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_role("combobox")).to_have_value("left")
    expect(dialog.locator("[data-part=again]")).to_have_text(
        shown.word("run.againExecuted", n=2, tasks="left, join")
    )
    expect(dialog.locator("[data-part=kept]")).to_have_text(
        shown.word("run.againKept", n=2, tasks="fetch, right")
    )
    new = started(shown, old)
    # What comes before it, and beside it, was not executed again, and shows the instants it had.
    assert executed(seen) == ONCE | {"left": 2, "join": 2}
    before, after = the_run(site, old), the_run(site, new)
    assert (after["retry_of"], after["retry_from"]) == (old, "left")
    for task, is_taken_over in {"fetch": True, "right": True, "left": False, "join": False}.items():
        shown.node_is(task, "SUCCEEDED")
        said = shown.word("run.takenOver" if is_taken_over else "status.SUCCEEDED")
        expect(shown.page.locator(f'.node[data-node="{task}"] small')).to_have_text(said)
        records = [run["task_records"][task]["ended_at"] for run in (before, after)]
        assert (records[0] == records[1]) is is_taken_over
    head = shown.page.locator(".run-head")
    expect(head).to_contain_text(shown.word("run.retryFrom", task="left"))
    head.get_by_role("link", name=old[:8]).click()
    shown.page.wait_for_url(lambda url: old in url)
    shown.status_is("COMPLETED")
    assert the_run(site, old) == before


def test_choose_by_keyboard_and_change_the_parameters(shown: Visit, site: Up, seen: Path) -> None:
    old = over(shown, seen)
    node = shown.page.locator('.node[data-node="left"]')
    node.focus()
    node.press("Enter")
    expect(node).to_have_attribute("aria-pressed", "true")
    shown.page.get_by_role("tab", name=shown.word("run.details")).press("Enter")
    panel = shown.page.get_by_role("tabpanel")
    fork = panel.get_by_role("button", name=shown.word("run.fork"), exact=True)
    fork.press("Enter")
    dialog = shown.page.locator("dialog")
    dialog.get_by_role("combobox").select_option("join")
    expect(dialog.locator("[data-part=again]")).to_contain_text("join")
    dialog.get_by_role("combobox").select_option("left")
    params = shown.fill_params("{not json")
    shown.dialog_button("run.againDo").press("Enter")
    expect(dialog.get_by_role("alert")).to_be_visible()
    params.fill(json.dumps({"seen": str(seen), "word": "two"}))
    expect(dialog).to_contain_text(shown.word("run.againOldParams"))
    new = started(shown, old)
    assert executed(seen) == ONCE | {"left": 2, "join": 2}
    after = the_run(site, new)
    assert (after["retry_of"], after["params"]["word"]) == (old, "two")
    # `fetch` was taken over: it knows nothing of the new word.
    assert after["task_records"]["join"]["output"] == "one two, one"


def test_choose_in_the_timeline_and_then_begin_anew(shown: Visit, site: Up, seen: Path) -> None:
    old = over(shown, seen)
    timeline = shown.page.get_by_role("region", name=shown.word("run.gantt"), exact=True)
    timeline.get_by_role("button", name="right", exact=True).click()
    near_the_graph(shown).click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_role("combobox")).to_have_value("right")
    dialog.get_by_label(shown.word("run.againStart")).check()
    expect(dialog.locator("[data-part=again]")).to_contain_text("fetch, left, right, join")
    shown.fill_params(json.dumps({"seen": str(seen), "word": "three"}))
    new = started(shown, old)
    assert executed(seen) == dict.fromkeys(ONCE, 2)
    after = the_run(site, new)
    assert (after["retry_of"], after.get("retry_from")) == (old, None)
    assert after["task_records"]["join"]["output"] == "three three, three"


def test_everybody_can_choose_on_a_phone_too(browser: Browser, site: Up, seen: Path) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make dashboard`")
    with visit(browser, site.url, "ja", window=PHONE, theme="dark") as shown:
        over(shown, seen)
        shown.page.locator('.node[data-node="left"]').press("Enter")
        assert violations(shown) == []
        near_the_graph(shown).click()
        expect(shown.page.locator("dialog [data-part=kept]")).to_be_visible()
        assert violations(shown) == []
        wide = "document.querySelector('dialog').scrollWidth > document.querySelector('dialog').clientWidth"
        assert not shown.page.evaluate(wide)
