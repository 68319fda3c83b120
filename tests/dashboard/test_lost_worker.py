"""The only worker of a tag is killed while it has a run: the open page of the run shows it by itself."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from pyoco_server.http_api.faces.executions.why_texts import CATALOGUES
from tests.cli.conftest import starter
from tests.cli.programs import Programs, Up, wait_for
from tests.dashboard.browser import visit
from tests.dashboard.conftest import FLOWS

pytestmark = pytest.mark.slow

# A silent worker keeps its runs, and reports often.
PATIENT = {"PYOCO_WORKER_LEASE_SEC": "60", "PYOCO_WORKER_HEARTBEAT_INTERVAL_SEC": "0.2"}


@pytest.mark.parametrize("language", ["en", "ja"])
def test_the_page_of_a_run_shows_that_its_worker_was_lost_and_that_another_goes_on(
    browser: Browser, programs: Programs, site: Up, tmp_path: Path, language: str
) -> None:
    tag, gate = f"rev-{language}", tmp_path / "gate"
    flows = ("--flow-resolver", f"{FLOWS}:resolve", "--concurrency", 1, "--data-dir", site.data_dir)
    worker = programs.start("pyoco-worker", *flows, "--tags", tag, "--worker-id", f"first-{language}")
    body = {"flow_name": "diamond", "tag": tag, "params": {"gate": str(gate)}}
    run_id = httpx.post(f"{site.url}/runs", json=body).json()["run_id"]
    with visit(browser, site.url, language) as shown:
        shown.page.clock.install()
        shown.open(f"/runs/{run_id}")
        shown.node_is("left", "RUNNING")
        worker.send(signal.SIGKILL)
        shown.status_is("LOST")
        expect(shown.page.locator(".run-status")).to_have_text(shown.word("status.LOST"))
        why = CATALOGUES["ja" if language == "ja" else "en"]["no_worker"]
        beginning = re.escape(why.format(tag=tag, since="@").partition("@")[0])
        expect(shown.page.locator(".why")).to_have_text(re.compile(beginning))
        expect(shown.page.locator(".gantt-bar.attempt[data-status=RUNNING]")).to_have_count(0)
        lost = shown.page.locator(".gantt-bar.attempt[data-status=LOST]")
        expect(lost).to_have_count(1)
        ran = shown.page.locator(".run-head dl > div", has_text=shown.word("run.ranUntilLoss")).locator("dd")
        assert_stands_still(ran)
        shown.open("/runs?tag=" + tag)
        row = shown.page.locator(".rows .row", has_text=run_id[:8])
        expect(row).to_contain_text(shown.word("status.UNHELD"))
        shown.open(f"/runs/{run_id}")
        shown.status_is("LOST")
        programs.start("pyoco-worker", *flows, "--tags", tag, "--worker-id", f"second-{language}")
        shown.status_is("RUNNING")
        gate.touch()
        shown.status_is("COMPLETED")
        expect(shown.page.locator(".gantt-bar.attempt[data-status=RUNNING]")).to_have_count(0)
        expect(lost).to_have_count(1)


def test_a_worker_that_was_silent_for_a_moment_does_not_stay_missing_in_the_sentence(
    browser: Browser, tmp_path: Path
) -> None:
    """Its lease is overdue for a moment, which changes nothing in the list of workers."""
    programs, gate = Programs(tmp_path), tmp_path / "gate"
    try:
        flows = ("--flow-resolver", f"{FLOWS}:resolve", "--concurrency", 1)
        up = starter(programs)(*flows, data_dir=None, **PATIENT)
        body = {"flow_name": "diamond", "params": {"gate": str(gate)}}
        running = httpx.post(f"{up.url}/runs", json=body).json()["run_id"]
        wait_for(lambda: httpx.get(f"{up.url}/runs/{running}").json()["status"] == "RUNNING", "a full worker")
        worker = up.worker_pid
        assert worker is not None
        with visit(browser, up.url) as shown:
            waiting = shown.start("diamond")
            sentence = shown.page.locator(".why")
            expect(sentence).to_contain_text("Next in line for a free worker")
            os.kill(worker, signal.SIGSTOP)
            try:
                why = f"{up.url}/executions/{waiting}/why"
                wait_for(lambda: "No live worker" in httpx.get(why).json()["summary"], "an overdue lease")
                shown.page.reload()
                expect(sentence).to_contain_text("No live worker")
            finally:
                os.kill(worker, signal.SIGCONT)
            expect(sentence).to_contain_text("Next in line for a free worker")
            gate.touch()
            shown.status_is("COMPLETED")
    finally:
        programs.end_all()


def assert_stands_still(clock: Locator) -> None:
    """A clock that goes changes each second: so it is looked at for longer than that."""
    before = clock.inner_text()
    clock.page.clock.run_for(3000)
    assert clock.inner_text() == before
