"""The page asks before it changes many runs, or what is not easily undone; one click is one request."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Request, Route, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import Visit


def submit(site: Up, flow: str, tag: str = "default", **params: object) -> str:
    body = {"flow_name": flow, "tag": tag, "params": params}
    return str(httpx.post(f"{site.url}/runs", json=body).raise_for_status().json()["run_id"])


def changes(shown: Visit) -> list[Request]:
    """What the page sends that changes something, as it is sent."""
    sent: list[Request] = []
    shown.page.on("request", lambda request: sent.append(request) if request.method != "GET" else None)
    return sent


def test_many_runs_are_cancelled_only_after_a_question(shown: Visit, site: Up) -> None:
    tag = f"for-cancel-{shown.language}"
    made = [submit(site, flow, tag) for flow in ("diamond", "diamond", "chatty")]
    sent = changes(shown)
    shown.open(f"/runs?tag={tag}&status=PENDING")
    expect(shown.page.locator(".rows .row")).to_have_count(3)
    shown.page.get_by_label(shown.word("runs.selectAll")).check()
    shown.page.keyboard.press("c")
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_role("heading")).to_have_text(shown.word("bulk.cancelTitle", n=3))
    expect(dialog).to_contain_text(shown.word("bulk.cancelText"))
    expect(dialog.get_by_role("listitem")).to_have_text(["diamond × 2", "chatty × 1"])
    for run_id in made:
        expect(dialog).to_contain_text(run_id[:8])
    expect(shown.dialog_button("bulk.keep")).to_be_focused()
    shown.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(shown.page.locator(".bulk")).to_be_visible()  # still chosen
    shown.button("runs.bulkCancel", n=3).click()
    shown.page.keyboard.press("Enter")  # the safe answer
    expect(dialog).to_have_count(0)
    assert sent == []
    shown.page.keyboard.press("c")
    shown.page.keyboard.press("Tab")
    shown.page.keyboard.press("Enter")
    expect(shown.page.locator(".rows .row")).to_have_count(0)
    for run_id in made:
        assert httpx.get(f"{site.url}/runs/{run_id}").json()["status"] == "CANCELLED"


def test_many_runs_are_retried_only_after_a_question(shown: Visit, site: Up) -> None:
    made = [submit(site, "mended", file="/nowhere/at/all") for _ in range(2)]
    for run_id in made:
        httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 20})
    sent = changes(shown)
    shown.open("/runs?flow=mended&status=FAILED")
    for run_id in made:
        shown.page.get_by_label(shown.word("runs.select", id=run_id[:8]), exact=True).check()
    shown.button("runs.bulkRetry", n=2).click()
    dialog = shown.page.locator("dialog")
    expect(dialog.get_by_role("listitem")).to_have_text(["mended × 2"])
    expect(dialog).to_contain_text(shown.word("bulk.retryText"))
    shown.dialog_button("do.close").last.click()
    assert sent == []
    shown.button("runs.bulkRetry", n=2).click()
    dialog.get_by_role("button", name=shown.word("runs.bulkRetry", n=2)).click()
    shown.sees(shown.word("runs.bulkDone", done=2, n=2))


def test_dead_letters_are_redriven_only_after_a_question(shown: Visit, site: Up) -> None:
    made = [submit(site, "nobody-knows-it") for _ in range(2)]
    sent = changes(shown)
    shown.open("/dlq?reason=flow_not_found")
    for run_id in made:
        expect(shown.page.locator("tr", has_text=run_id[:8])).to_be_visible()
    shown.page.get_by_role("button", name=all_of(shown)).click()
    dialog = shown.page.locator("dialog")
    expect(dialog).to_contain_text(shown.word("dlq.redriveText"))
    expect(dialog.get_by_role("listitem").first).to_contain_text("nobody-knows-it × ")
    expect(shown.dialog_button("do.close").last).to_be_focused()
    shown.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    row = shown.page.locator("tr", has_text=made[0][:8])
    row.get_by_role("button", name=shown.word("dlq.redrive")).click()
    expect(dialog).to_contain_text(made[0][:8])
    assert sent == []
    dialog.get_by_role("button", name=shown.word("dlq.redriveDo", n=1)).click()
    expect(row.get_by_role("link", name=shown.word("dlq.redriven"))).to_be_visible()
    assert len(sent) == 1


def all_of(shown: Visit) -> re.Pattern[str]:
    return re.compile(shown.word("dlq.redriveAll", n="@").replace("@", r"\d+"))


def test_a_worker_is_drained_only_after_a_question(in_english: Visit, site: Up) -> None:
    [worker] = httpx.get(f"{site.url}/workers").json()
    sent = changes(in_english)
    in_english.open("/workers")
    name = f"{in_english.word('workers.drain')}: {worker['worker_id']}"
    in_english.page.get_by_role("button", name=name, exact=True).click()
    dialog = in_english.page.locator("dialog")
    expect(dialog).to_contain_text(in_english.word("workers.drain.alone", tags="default"))
    in_english.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert sent == []


def test_a_deletion_that_failed_says_so_where_it_was_asked(in_english: Visit, site: Up) -> None:
    body = {"flow_name": "described", "run_at": "2100-01-01T00:00:00Z"}
    made = httpx.post(f"{site.url}/schedules", json=body).json()["schedule_id"]
    in_english.complaints.clear()
    in_english.open("/schedules")
    row = in_english.page.locator(f'tr[data-schedule="{made}"]')
    row.get_by_role("button", name=in_english.word("schedules.delete")).click()
    in_english.page.route("**/schedules/*", lambda route: refused(route, 422))
    in_english.dialog_button("schedules.delete").click()
    expect(in_english.page.locator("dialog").get_by_role("alert")).to_contain_text("refused with 422")
    in_english.page.unroute("**/schedules/*")
    in_english.dialog_button("schedules.delete").click()
    expect(row).to_have_count(0)


def refused(route: Route, status: int) -> None:
    route.fulfill(status=status, json={"detail": f"refused with {status}"})


def test_a_double_click_starts_one_run(in_english: Visit, site: Up) -> None:
    sent = changes(in_english)
    in_english.open("/flows?start=diamond")
    in_english.dialog_button("flows.submit.do").dblclick()
    run_id = in_english.run_id
    in_english.status_is("COMPLETED")
    assert [urlsplit(one.url).path for one in sent] == ["/runs"]
    assert sent[0].headers["idempotency-key"]
    newest = httpx.get(f"{site.url}/runs", params={"flow": "diamond", "limit": 1}).json()
    assert newest[0]["run_id"] == run_id


def test_what_is_sent_again_after_no_answer_starts_no_second_run(in_english: Visit, site: Up) -> None:
    """The first answer is lost on its way: the reader presses again."""
    before = started(site, "described")

    def lose_the_answer(route: Route) -> None:
        route.fetch()
        route.abort("connectionreset")

    in_english.page.route(re.compile(r"/runs$"), lose_the_answer, times=1)
    in_english.open("/flows?start=described")
    field = in_english.fill_params('{"day": "Monday"}')
    in_english.dialog_button("flows.submit.do").click()
    expect(in_english.page.locator("dialog").get_by_role("alert")).to_be_visible()
    expect(field).to_have_value('{"day": "Monday"}')
    in_english.dialog_button("flows.submit.do").click()
    in_english.status_is("COMPLETED")
    in_english.complaints[:] = [one for one in in_english.complaints if "ERR_CONNECTION_RESET" not in one]
    wait_for(lambda: started(site, "described") == before + 1, "one run more")


def started(site: Up, flow: str) -> int:
    return len(httpx.get(f"{site.url}/runs", params={"flow": flow, "limit": 100}).json())


@pytest.mark.parametrize("answer", [422])
def test_a_tag_that_was_refused_stays_in_its_field(in_english: Visit, site: Up, answer: int) -> None:
    run_id = submit(site, "diamond")
    in_english.open(f"/runs/{run_id}")
    in_english.page.route("**/jobs/*/tags", lambda route: refused(route, answer))
    field = in_english.page.get_by_label(in_english.word("run.addTag"))
    field.fill("blue")
    field.press("Enter")
    in_english.sees(f"refused with {answer}")
    expect(field).to_have_value("blue")
