"""Workers: the queue of each tag, and a page for each worker."""

from __future__ import annotations

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit


def test_each_tag_shows_its_backlog_and_that_no_worker_serves_it(shown: Visit, site: Up) -> None:
    tag = f"unserved-{shown.language}"
    shown.open("/workers")
    expect(shown.page.locator('tr[data-queue="default"]')).to_be_visible()
    made = [
        httpx.post(f"{site.url}/runs", json={"flow_name": "described", "tag": tag}).json()["run_id"]
        for _ in range(2)
    ]
    row = shown.page.locator(f'tr[data-queue="{tag}"]')
    expect(row.get_by_role("link", name="2")).to_be_visible()
    expect(row).to_contain_text(shown.word("workers.queues.unserved"))
    row.get_by_role("link", name="2").click()
    expect(shown.page.locator(".rows .row", has_text=made[0][:8])).to_be_visible()
    for run_id in made:
        httpx.post(f"{site.url}/runs/{run_id}/cancel")
    shown.open("/workers")
    expect(shown.page.locator('tr[data-queue="default"]')).to_be_visible()
    expect(row).to_have_count(0)


def test_a_worker_has_a_page_with_its_process_runs_and_drain(shown: Visit, site: Up) -> None:
    [worker] = httpx.get(f"{site.url}/workers").json()
    shown.open("/workers")
    expect(shown.page.locator(f'tr[data-worker="{worker["worker_id"]}"] .load')).to_contain_text("MiB")
    shown.page.get_by_role("link", name=worker["worker_id"], exact=True).click()
    about = shown.page.locator(f'[data-worker="{worker["worker_id"]}"]')
    expect(about).to_contain_text(str(worker["pid"]))
    expect(about).to_contain_text(worker["versions"]["pyoco_server"])
    expect(about.get_by_role("link", name="diamond")).to_be_visible()
    cores = shown.word("workers.usage.ofCores", n="", all=worker["usage"]["cpu_cores"]).strip()
    expect(about.locator("[data-part=cpu]")).to_contain_text(cores)
    expect(about.locator("[data-part=memory]")).to_contain_text("MiB")
    expect(about.locator("[data-slot]")).to_have_count(worker["slots"])
    name = f"{shown.word('workers.drain')}: {worker['worker_id']}"
    expect(shown.page.get_by_role("button", name=name, exact=True)).to_be_visible()
    shown.open("/workers/no-such-worker")
    shown.sees(shown.word("workers.none.one", worker="no-such-worker"))
