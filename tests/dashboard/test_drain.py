"""Drain a worker from the page, see it through, resume it; and a worker long gone leaves the page."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Route, expect

from pyoco_server.http_api.faces.executions.why_texts import CATALOGUES
from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.dashboard.browser import PHONE, Visit, visit
from tests.dashboard.conftest import FLOWS

QUICK = {
    "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2",
    "PYOCO_WORKER_DISCONNECT_TIMEOUT_SEC": "3",
    "PYOCO_WORKER_HISTORY_SEC": "3",
}


@pytest.fixture
def worker_id(site: Up) -> Iterator[str]:
    """Of the one worker there is, which takes runs again afterwards."""
    [worker] = httpx.get(f"{site.url}/workers").json()
    yield worker["worker_id"]
    set_draining(site, worker["worker_id"], False)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """Runs wait for it. It is open in the end: the worker is the next test's, too."""
    path = tmp_path / "go"
    yield path
    path.touch()


def test_drain_a_worker_see_it_through_and_resume_it(
    shown: Visit, site: Up, worker_id: str, gate: Path
) -> None:
    shown.start("diamond", json.dumps({"gate": str(gate)}))
    shown.status_is("RUNNING")
    shown.open("/workers")
    row = row_of(shown, worker_id)
    press(shown, row, "workers.drain", worker_id)
    shown.dialog_button("workers.drain").click()
    shown.sees(shown.word("workers.drain.done", worker=worker_id))
    expect(row.locator("[data-drain=draining]")).to_have_text(shown.word("workers.draining.one"))
    expect(row.locator("[data-drain=draining] svg")).to_be_visible()  # a shape, a word and a colour

    later = shown.start("diamond")
    shown.status_is("PENDING")
    why = CATALOGUES["ja" if shown.language == "ja" else "en"]["draining_alone"].format(tag="default")
    expect(shown.page.locator(".why")).to_have_text(why)

    shown.open("/workers")
    gate.touch()
    expect(row.locator("[data-drain=drained]")).to_have_text(shown.word("workers.drained"))
    press(shown, row, "workers.resume", worker_id)
    shown.sees(shown.word("workers.resume.done", worker=worker_id))
    expect(row.locator("[data-drain]")).to_have_count(0)
    shown.open(f"/runs/{later}")
    shown.status_is("COMPLETED")


def test_a_run_that_waits_says_so_as_soon_as_its_worker_drains_and_is_resumed(
    in_english: Visit, site: Up, worker_id: str, gate: Path
) -> None:
    """Nobody touches the page: it is told."""
    start_five(in_english, gate)
    set_draining(site, worker_id, True)
    expect(in_english.page.locator(".why")).to_contain_text("is draining")
    set_draining(site, worker_id, False)
    expect(in_english.page.locator(".why")).to_contain_text("Next in line for a free worker")
    gate.touch()
    in_english.status_is("COMPLETED")


def test_a_drain_that_ended_before_the_page_was_told_of_it_does_not_stay_in_the_sentence(
    in_english: Visit, site: Up, worker_id: str, gate: Path
) -> None:
    """Workers are told a few times a second. The sentence may be of a moment between two of these."""
    waiting = start_five(in_english, gate)
    set_draining(site, worker_id, True)
    why = f"{site.url}/executions/{waiting}/why"
    of_the_drain = wait_for(lambda: said_by(why, "is draining"), "the sentence of the drain")
    set_draining(site, worker_id, False)
    wait_for(lambda: said_by(why, "Next in line for a free worker"), "the end of the drain")

    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(status=200, content_type="application/json", body=of_the_drain)

    in_english.page.route("**/why*", answer)
    with in_english.page.expect_event("requestfinished", lambda one: len(asked) > 1 and one.url == asked[-1]):
        in_english.page.reload()  # asks once more when it is told of workers
    expect(in_english.page.locator(".why")).to_contain_text("is draining")
    in_english.page.unroute("**/why*")
    set_draining(site, worker_id, False)
    expect(in_english.page.locator(".why")).to_contain_text("Next in line for a free worker")
    gate.touch()
    in_english.status_is("COMPLETED")


def test_drain_with_a_thumb(browser: Browser, site: Up, worker_id: str) -> None:
    with visit(browser, site.url, "ja", window=PHONE) as phone:
        phone.open("/workers")
        row = row_of(phone, worker_id)
        drain = row.get_by_role("button", name=f"{phone.word('workers.drain')}: {worker_id}", exact=True)
        expect(drain).to_be_in_viewport(ratio=1)
        drain.click()
        phone.dialog_button("workers.drain").click()
        expect(row.locator("[data-drain=drained]")).to_be_visible()
        assert phone.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        press(phone, row, "workers.resume", worker_id)
        expect(row.locator("[data-drain]")).to_have_count(0)


def test_a_worker_that_was_stopped_long_ago_leaves_the_page(browser: Browser, tmp_path: Path) -> None:
    programs = Programs(tmp_path)
    try:
        flows = ("--flow-resolver", f"{FLOWS}:resolve", "--concurrency", 1)
        up = starter(programs)(*flows, data_dir=None, **QUICK)
        guest = programs.start(
            "pyoco-worker", *flows, "--data-dir", up.data_dir, "--worker-id", "guest", **QUICK
        )
        wait_for(lambda: len(httpx.get(f"{up.url}/workers").json()) == 2, "both workers")
        with visit(browser, up.url) as shown:
            shown.open("/workers")
            expect(shown.page.locator("tbody tr[data-worker]")).to_have_count(2)
            guest.send(signal.SIGTERM)
            expect(row_of(shown, "guest")).to_contain_text(shown.word("workers.STOPPED_GRACEFUL"))
            expect(row_of(shown, "guest")).to_have_count(0)
            expect(shown.page.locator("tbody tr[data-worker]")).to_have_count(1)
    finally:
        programs.end_all()


def start_five(visit: Visit, gate: Path) -> str:
    """Four that wait for the gate, and one that waits for a slot. Returns the id of the latter."""
    for _ in range(4):
        visit.start("diamond", json.dumps({"gate": str(gate)}))
        visit.status_is("RUNNING")
    waiting = visit.start("diamond")
    visit.status_is("PENDING")
    return waiting


def set_draining(site: Up, worker_id: str, draining: bool) -> None:
    httpx.patch(f"{site.url}/workers/{worker_id}", json={"draining": draining}).raise_for_status()


def said_by(why: str, words: str) -> str | None:
    answer = httpx.get(why).raise_for_status()
    return answer.text if words in answer.json()["summary"] else None


def row_of(shown: Visit, worker_id: str) -> Locator:
    return shown.page.locator(f'tbody tr[data-worker="{worker_id}"]')


def press(shown: Visit, row: Locator, key: str, worker_id: str) -> None:
    row.get_by_role("button", name=f"{shown.word(key)}: {worker_id}", exact=True).click()
