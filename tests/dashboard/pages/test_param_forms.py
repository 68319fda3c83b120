"""Parameters in fields: made from the types of the code, checked beside the field, and also as JSON."""

from __future__ import annotations

import json
import re

import httpx
from playwright.sync_api import Browser, Locator, expect

from tests.cli.programs import Up
from tests.dashboard.browser import PHONE, Visit, visit
from tests.dashboard.test_access import violations
from tests.dashboard.test_list import submit

ORDER = {"pieces": 3, "due_on": None, "market": "tokyo"}


def field(shown: Visit, name: str) -> Locator:
    return shown.page.locator(f"dialog [data-param='{name}']")


def test_a_run_is_started_from_fields_of_every_type(shown: Visit, site: Up) -> None:
    # The form begins with the parameters of the last run: with none.
    last = submit(site, "typed", tag="nobody-takes-this")
    httpx.post(f"{site.url}/runs/{last}/cancel").raise_for_status()
    shown.open("/flows/typed?start=1")
    dialog = shown.page.locator("dialog")
    order = field(shown, "order")
    expect(order).to_contain_text("What a customer has ordered.")
    shown.dialog_button("flows.submit.do").click()
    # What is wrong stands beside its field, and the first of them has the focus.
    expect(field(shown, "day").locator(".problem")).to_have_text(shown.word("form.required"))
    expect(field(shown, "order.pieces").locator(".problem")).to_have_text(shown.word("form.required"))
    expect(dialog.locator("[aria-invalid=true]").first).to_be_focused()
    assert violations(shown) == []
    order.get_by_label("pieces").fill("100")
    expect(field(shown, "order.pieces").locator(".problem")).to_have_text(shown.word("form.max", n=99))
    order.get_by_label("pieces").fill("3")
    expect(field(shown, "order.pieces").locator(".problem")).to_have_text("")
    order.get_by_label("market").select_option(label="tokyo")
    field(shown, "day").locator("input").fill("2026-01-31")
    dialog.get_by_label("size").select_option(label="large")
    dialog.get_by_label("ratio").fill("2")
    expect(field(shown, "ratio").locator(".problem")).to_have_text(shown.word("form.below", n=1))
    dialog.get_by_label("ratio").fill("0.25")
    labels = field(shown, "labels")
    labels.get_by_role("button", name=shown.word("form.add", what="labels")).click()
    labels.get_by_label("labels 2", exact=True).fill("urgent")
    dialog.get_by_label("strict").uncheck()
    gift = field(shown, "gift")
    gift.get_by_label(shown.word("form.set")).check()
    gift.get_by_label("pieces").fill("1")
    shown.dialog_button("flows.submit.do").click()
    shown.status_is("COMPLETED")
    params = httpx.get(f"{site.url}/runs/{shown.run_id}").json()["params"]
    assert params == {
        "order": ORDER,
        "day": "2026-01-31",
        "size": "large",
        "ratio": 0.25,
        "labels": ["new", "urgent"],
        "strict": False,
        "gift": {"pieces": 1, "due_on": None, "market": "paris"},
    } | {"note": None, "at": None}


def test_fields_and_json_are_two_views_of_the_same_values(in_english: Visit, site: Up) -> None:
    in_english.open("/flows/typed?start=1")
    dialog = in_english.page.locator("dialog")
    given = {"order": ORDER, "day": "2026-02-01", "more": [1, 2]}
    in_english.fill_params(json.dumps(given))
    dialog.get_by_role("tab", name="Form").click()
    expect(field(in_english, "order.pieces").locator("input")).to_have_value("3")
    expect(field(in_english, "day").locator("input")).to_have_value("2026-02-01")
    expect(dialog.locator("[data-part=others]")).to_contain_text("more: [1,2]")
    dialog.get_by_role("tab", name="JSON").click()
    text = dialog.get_by_label(in_english.word("flows.submit.params")).input_value()
    assert json.loads(text) == given
    in_english.fill_params("{no json")
    dialog.get_by_role("tab", name="Form").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not valid JSON")
    in_english.dialog_button("flows.submit.do").click()
    expect(dialog.get_by_role("alert")).to_contain_text("not valid JSON")


def test_run_again_has_the_fields_and_sends_only_what_was_changed(in_english: Visit, site: Up) -> None:
    body = {"flow_name": "typed", "params": {"order": ORDER, "day": "2026-03-01"}}
    run_id = httpx.post(f"{site.url}/runs", json=body).json()["run_id"]
    in_english.open(f"/runs/{run_id}")
    in_english.status_is("COMPLETED")
    for ratio in (None, "0.75"):
        in_english.button("run.again").click()
        dialog = in_english.page.locator("dialog")
        expect(field(in_english, "order.pieces").locator("input")).to_have_value("3")
        if ratio is not None:
            dialog.get_by_label("ratio").fill(ratio)
        before = in_english.run_id
        in_english.dialog_button("run.againDo").click()
        expect(in_english.page).not_to_have_url(re.compile(before))
        params = httpx.get(f"{site.url}/runs/{in_english.run_id}").json()["params"]
        assert params == body["params"] | ({"ratio": 0.75} if ratio else {})  # type: ignore[operator]
        in_english.status_is("COMPLETED")


def test_a_schedule_is_made_from_fields_with_the_defaults_of_the_flow(in_english: Visit, site: Up) -> None:
    in_english.open("/schedules?new=1&flow=typed")
    dialog = in_english.page.locator("dialog")
    expect(dialog.get_by_label("ratio")).to_have_value("0.5")
    in_english.dialog_button("schedules.make").click()
    expect(field(in_english, "day").locator(".problem")).to_have_text(in_english.word("form.required"))
    field(in_english, "day").locator("input").fill("2026-01-31")
    field(in_english, "order.pieces").locator("input").fill("1")
    with in_english.page.expect_request(lambda one: one.method == "POST") as sent:
        in_english.dialog_button("schedules.make").click()
    expect(dialog).to_have_count(0)
    params = json.loads(sent.value.post_data or "")["params"]
    assert (params["day"], params["order"]["pieces"], params["ratio"]) == ("2026-01-31", 1, 0.5)
    for one in httpx.get(f"{site.url}/schedules").json():
        httpx.delete(f"{site.url}/schedules/{one['schedule_id']}")


def test_the_form_fits_a_phone(browser: Browser, site: Up) -> None:
    with visit(browser, site.url, "ja", window=PHONE, theme="dark") as shown:
        shown.open("/flows/typed?start=1")
        expect(field(shown, "ratio")).to_be_visible()
        field(shown, "gift").get_by_label(shown.word("form.set")).check()
        expect(field(shown, "gift.pieces")).to_be_visible()
        assert violations(shown) == []
        dialog = "document.querySelector('dialog')"
        assert not shown.page.evaluate(f"{dialog}.scrollWidth > {dialog}.clientWidth")
