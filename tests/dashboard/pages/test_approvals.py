"""Approvals: the question first, an address for each, search and order, and the history of answers."""

from __future__ import annotations

import json
import re

import httpx
from playwright.sync_api import expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import Visit
from tests.dashboard.test_access import violations


def waiting(site: Up, version: str) -> str:
    body = {"flow_name": "release", "params": {"version": version}}
    run_id = str(httpx.post(f"{site.url}/runs", json=body).json()["run_id"])
    wait_for(lambda: any(one["run_id"] == run_id for one in pending(site)), "an approval")
    return run_id


def pending(site: Up) -> list[dict[str, str]]:
    items: list[dict[str, str]] = httpx.get(f"{site.url}/approvals?limit=200").json()["items"]
    return items


def test_the_question_comes_first_and_an_answer_is_confirmed(shown: Visit, site: Up) -> None:
    run_id = waiting(site, "5.0")
    shown.open("/approvals")
    card = shown.page.locator(".approval", has_text=run_id[:8])
    expect(card.get_by_role("heading", level=2)).to_have_text("Deploy it?")
    card.get_by_role("button", name=shown.word("approvals.reject"), exact=True).click()
    dialog = shown.page.locator("dialog")
    expect(dialog).to_contain_text(shown.word("approvals.sure.text"))
    expect(dialog).to_contain_text("Deploy it?")
    expect(shown.dialog_button("approvals.keep")).to_be_focused()
    shown.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert any(one["run_id"] == run_id for one in pending(site))
    shown.answer(card, "reject")
    expect(card).to_have_count(0)


def test_an_approval_has_an_address_to_send(shown: Visit, site: Up) -> None:
    run_id = waiting(site, "5.1")
    shown.open(f"/approvals/{run_id}/release")
    card = shown.page.locator(".approval")
    expect(card).to_have_count(1)
    expect(card).to_contain_text("shop-5.1.tar.gz")
    expect(shown.page).to_have_title(re.compile("Deploy it?"))
    expect(card.get_by_role("button", name=shown.word("approvals.link"))).to_be_visible()
    shown.answer(card, "approve")
    shown.sees(shown.word("approvals.gone"))
    shown.page.get_by_role("link", name=shown.word("approvals.toRun")).click()
    assert shown.run_id == run_id


def test_answers_are_kept_with_who_gave_them_and_why(shown: Visit, site: Up) -> None:
    run_id = waiting(site, "5.2")
    shown.open("/approvals")
    card = shown.page.locator(".approval", has_text=run_id[:8])
    card.get_by_label(shown.word("approvals.comment")).fill("not on a Friday")
    shown.answer(card, "reject")
    shown.button("approvals.history").click()
    row = shown.page.locator(f'tr[data-answer="{run_id}"]')
    expect(row).to_contain_text(shown.word("status.REJECTED"))
    expect(row).to_contain_text("Deploy it?")
    expect(row).to_contain_text("not on a Friday")
    expect(row).to_contain_text(shown.word("approvals.anonymous"))
    # The address holds the view: it is the same after a reload.
    shown.page.reload()
    expect(row).to_be_visible()
    shown.page.get_by_role("searchbox").fill("no such thing")
    shown.sees(shown.word("approvals.none.match"))


def test_approvals_are_searched_and_sorted(in_english: Visit, site: Up) -> None:
    first, second = waiting(site, "6.1"), waiting(site, "6.2")
    in_english.open("/approvals")
    cards = in_english.page.locator(".approval")
    in_english.page.get_by_role("searchbox").fill("shop-6.")
    expect(cards).to_have_count(2)
    expect(cards.first).to_contain_text(first[:8])
    in_english.page.get_by_label(in_english.word("approvals.sort")).select_option("newest")
    expect(cards.first).to_contain_text(second[:8])
    in_english.page.get_by_role("searchbox").fill("shop-6.2")
    expect(cards).to_have_count(1)


def test_an_answer_that_the_gateway_refuses_shows_which_field_is_wrong(shown: Visit, site: Up) -> None:
    run_id = str(httpx.post(f"{site.url}/runs", json={"flow_name": "rollout"}).json()["run_id"])
    wait_for(lambda: any(one["run_id"] == run_id for one in pending(site)), "an approval")
    shown.open(f"/approvals/{run_id}/decide")
    card = shown.page.locator(".approval")
    card.get_by_role("tab", name=shown.word("form.mode.json"), exact=True).click()
    text = card.get_by_label(shown.word("approvals.answer.json"))
    text.fill('{"stage": "tokyo", "percent": "many"}')
    shown.answer(card, "approve")
    shown.sees("payload.percent must be an integer, not a string")
    assert json.loads(text.input_value())["percent"] == "many"
    shown.page.keyboard.press("Escape")
    text.fill('{"stage": "tokyo", "percent": 5}')
    shown.answer(card, "approve")
    shown.sees(shown.word("approvals.gone"))


def test_an_answer_that_has_a_type_is_given_in_a_form(shown: Visit, site: Up) -> None:
    run_id = str(httpx.post(f"{site.url}/runs", json={"flow_name": "rollout"}).json()["run_id"])
    wait_for(lambda: any(one["run_id"] == run_id for one in pending(site)), "an approval")
    shown.open(f"/approvals/{run_id}/decide")
    card = shown.page.locator(".approval")
    expect(card).not_to_contain_text("answer_schema")
    card.get_by_role("button", name=shown.word("approvals.approve"), exact=True).click()
    stage = card.locator("[data-param=stage]")
    expect(stage.locator(".problem")).to_have_text(shown.word("form.required"))
    expect(stage.get_by_label("stage")).to_be_focused()
    assert violations(shown) == []
    stage.get_by_label("stage").select_option(label="paris")
    percent = card.locator("[data-param=percent]")
    percent.get_by_label("percent").fill("101")
    expect(percent.locator(".problem")).to_have_text(shown.word("form.max", n=100))
    percent.get_by_label("percent").fill("25")
    card.get_by_role("tab", name=shown.word("form.mode.json"), exact=True).click()
    text = card.get_by_label(shown.word("approvals.answer.json"))
    assert json.loads(text.input_value()) == {"stage": "paris", "percent": 25, "notes": []}
    text.fill('{"stage": "tokyo", "percent": 50}')
    card.get_by_role("tab", name=shown.word("form.mode.form"), exact=True).click()
    expect(percent.get_by_label("percent")).to_have_value("50")
    shown.answer(card, "approve")
    shown.sees(shown.word("approvals.gone"))
    httpx.get(f"{site.url}/runs/{run_id}", params={"wait": 30})
    result = httpx.get(f"{site.url}/runs/{run_id}/result").json()
    assert result == {"stage": "tokyo", "percent": 50}
