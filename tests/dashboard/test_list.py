"""The list of runs: live, narrowed by its address, and worked with by keyboard."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit


def submit(site: Up, flow: str, tag: str = "default", **params: object) -> str:
    body = {"flow_name": flow, "tag": tag, "params": params}
    run_id: str = httpx.post(f"{site.url}/runs", json=body).json()["run_id"]
    return run_id


def test_a_run_appears_and_changes_while_one_looks(in_english: Visit, site: Up, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    in_english.open("/runs")
    expect(in_english.page.locator(".live.good")).to_be_visible()
    run_id = submit(site, "diamond", gate=str(gate))
    row = in_english.page.locator(".rows .row", has_text=run_id[:8])
    expect(row.locator("[data-status=RUNNING]")).to_be_visible()
    gate.touch()
    expect(row.locator("[data-status=COMPLETED]")).to_be_visible()


def test_filters_stand_in_the_address(in_english: Visit, site: Up) -> None:
    waiting = submit(site, "diamond", tag="nobody-serves-this")
    done = submit(site, "diamond")
    in_english.open("/runs")
    in_english.page.locator(".rows .row", has_text=done[:8]).locator("[data-status=COMPLETED]").wait_for()
    in_english.page.get_by_role("button", name=in_english.word("status.PENDING")).click()
    expect(in_english.page.locator(".rows .row", has_text=waiting[:8])).to_be_visible()
    expect(in_english.page.locator(".rows .row", has_text=done[:8])).to_have_count(0)
    assert "status=PENDING" in in_english.page.url
    in_english.open("/runs")
    in_english.page.keyboard.press("/")
    in_english.page.keyboard.type(done[:13])
    expect(in_english.page.locator(".rows .row")).to_have_count(1)
    assert f"q={done[:13]}" in in_english.page.url
    in_english.page.reload()
    expect(in_english.page.locator(".rows .row", has_text=done[:8])).to_be_visible()
    # What does not fit does not come in, however much it changes.
    other = submit(site, "mended", file="/")
    httpx.get(f"{site.url}/runs/{other}", params={"wait": 20})
    expect(in_english.page.locator(".rows .row")).to_have_count(1)
    httpx.post(f"{site.url}/runs/{waiting}/cancel")


def test_runs_are_cancelled_together_by_keyboard(in_english: Visit, site: Up) -> None:
    made = [submit(site, "diamond", tag="nobody-at-all") for _ in range(3)]
    in_english.open("/runs?tag=nobody-at-all&status=PENDING")
    expect(in_english.page.locator(".rows .row")).to_have_count(3)
    for _ in made:
        in_english.page.keyboard.press("j")
        in_english.page.keyboard.press("x")
    in_english.page.keyboard.press("c")
    expect(in_english.dialog_button("bulk.keep")).to_be_focused()
    in_english.page.keyboard.press("Tab")
    in_english.page.keyboard.press("Enter")
    expect(in_english.page.locator(".rows .row")).to_have_count(0)
    for run_id in made:
        assert httpx.get(f"{site.url}/runs/{run_id}").json()["status"] == "CANCELLED"


def test_back_from_a_run_the_list_is_where_it_was_left(in_english: Visit, site: Up) -> None:
    made = [submit(site, "diamond", tag="far-down") for _ in range(120)]
    in_english.open("/runs?tag=far-down")
    page = in_english.page
    rows = page.locator(".rows")
    expect(page.locator(".rows .row").first).to_be_visible()
    rows.evaluate("box => box.scrollTop = 1700")
    row = page.locator(".rows .row", has_text=made[60][:8])
    expect(row).to_be_in_viewport()
    before = rows.evaluate("box => box.scrollTop")
    row.locator(".flow-cell a").first.click()
    in_english.status_is("PENDING")
    page.go_back()
    expect(row).to_be_in_viewport()
    assert rows.evaluate("box => box.scrollTop") == before
    # It goes on meanwhile, and a link begins at the top.
    page.go_forward()
    in_english.status_is("PENDING")
    httpx.post(f"{site.url}/runs/{made[60]}/cancel")
    in_english.status_is("CANCELLED")
    page.go_back()
    expect(row).to_be_in_viewport()
    expect(row.locator("[data-status=CANCELLED]")).to_be_visible()
    in_english.open("/workers")
    in_english.open("/runs?tag=far-down")
    expect(page.locator(".rows .row").first).to_be_visible()
    assert rows.evaluate("box => box.scrollTop") == 0
    for run_id in made:
        httpx.post(f"{site.url}/runs/{run_id}/cancel")


def test_a_run_that_nobody_can_take_says_why(shown: Visit, site: Up) -> None:
    run_id = submit(site, "diamond", tag="gpu")
    shown.open(f"/runs/{run_id}")
    expect(shown.page.locator(".why")).to_contain_text("gpu")
    httpx.post(f"{site.url}/runs/{run_id}/cancel")
    shown.status_is("CANCELLED")
    expect(shown.page.locator(".cancel-story")).to_contain_text(shown.word("cancel.unstarted"))


def test_tags_are_edited_in_place(in_english: Visit, site: Up) -> None:
    run_id = submit(site, "diamond")
    in_english.open(f"/runs/{run_id}")
    field = in_english.page.get_by_label(in_english.word("run.addTag"))
    field.fill("blue/green")
    field.press("Enter")
    remove = in_english.page.get_by_role("button", name=in_english.word("do.remove", what="blue/green"))
    remove.click()
    expect(remove).to_have_count(0)


def test_a_run_is_run_again_with_other_parameters(in_english: Visit, site: Up) -> None:
    first = in_english.start("chatty", '{"lines": 2}')
    in_english.status_is("COMPLETED")
    in_english.button("run.again").click()
    in_english.page.get_by_label(in_english.word("run.againStart")).check()
    in_english.fill_params('{"lines": 3}')
    in_english.dialog_button("run.againDo").click()
    in_english.page.wait_for_url(lambda url: first not in url)
    in_english.sees("line 3 of 3")
    params = httpx.get(f"{site.url}/runs/{in_english.run_id}").json()["params"]
    assert json.dumps(params) == '{"lines": 3}'


def test_a_flow_yaml_is_checked_by_the_server_and_says_where(in_english: Visit, site: Up) -> None:
    in_english.open("/flows")
    in_english.button("flows.yaml").click()
    in_english.page.locator("dialog textarea").fill(
        "version: 1\nflow:\n  graph: |\n    a >> nowhere\ntasks: {}\n"
    )
    in_english.dialog_button("flows.submit.do").click()
    expect(in_english.page.locator("dialog .wrong")).to_contain_text("line")


def test_a_page_has_one_connection_that_stays_open(in_english: Visit, site: Up, tmp_path: Path) -> None:
    """Browsers allow six to one place: a list, a run, its events and its log must not need one each."""
    opened: list[str] = []
    in_english.page.on("request", lambda request: opened.append(request.url))
    gate = tmp_path / "go"
    run_id = in_english.start("diamond", json.dumps({"gate": str(gate)}))
    in_english.status_is("RUNNING")
    in_english.sees("fetched")
    wanted = [f"run%3A{run_id}", f"log%3A{run_id}", f"events%3A{run_id}"]
    expect(in_english.page.locator(".gantt-bar.attempt[data-status=RUNNING]")).to_have_count(1)
    last = [url for url in opened if "/stream?" in url][-1]
    assert all(topic in last for topic in ["topic=runs", *wanted])
    assert not [url for url in opened if "/runs/stream" in url or "/watch" in url or "/logs/stream" in url]
    gate.touch()
    in_english.status_is("COMPLETED")


def test_the_form_of_a_flow_begins_with_the_defaults_of_its_code(shown: Visit, site: Up) -> None:
    shown.open("/flows")
    shown.page.get_by_role("button", name=f"{shown.word('flows.start')}: described", exact=True).click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_label("pages")).to_have_value("3")
    day = dialog.locator("[data-param=day]")
    expect(day).to_contain_text("str")
    expect(day.locator(".required")).to_contain_text(shown.word("flows.submit.required"))
    dialog.get_by_role("tab", name=shown.word("form.mode.json"), exact=True).click()
    field = dialog.get_by_label(shown.word("flows.submit.params"))
    expect(field).to_have_value('{\n  "pages": 3\n}')
    field.fill('{"day": "Monday", "pages": 1}')
    dialog.get_by_role("tab", name=shown.word("form.mode.form"), exact=True).click()
    expect(dialog.get_by_label("pages")).to_have_value("1")
    expect(dialog.get_by_label("day")).to_have_value("Monday")


def test_what_the_gateway_counts_is_found_on_the_system_page(shown: Visit, site: Up) -> None:
    shown.open("/system")
    rows = shown.page.locator("tr[data-metric]")
    expect(rows.first).to_be_visible()
    shown.page.get_by_label(shown.word("system.metrics.search")).fill("draining")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("pyoco_workers_draining")
