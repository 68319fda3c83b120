"""Everybody can use it: axe finds nothing on any page, in both themes, at both widths; keyboards suffice."""

from __future__ import annotations

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.cli.programs import Up, wait_for
from tests.dashboard.browser import PHONE, ROOT, WINDOW, Visit, visit

AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
PAGES = {
    "/runs": ".rows .row",
    "/approvals": ".approval",
    "/approvals?view=history": "tr[data-answer]",
    "/workers": "tbody tr",
    "/flows": "tbody tr",
    "/schedules": ".empty",
    "/wheels": ".page",
    "/dlq": "tr[data-letter]",
    "/dlq?dismissed=1": "tr[data-letter]",
    "/strategies": "tbody tr",
    "/system": "tr[data-metric]",
    "/flows/diamond": ".trend-card",
    "/flows?start=diamond": "dialog .params-form",
    "/flows?start=typed": "dialog .params-form fieldset",
    "/schedules?new=1": "dialog .preview li",
}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]


@pytest.fixture(scope="module")
def run_id(site: Up) -> str:
    """Something to see on every page."""
    httpx.post(f"{site.url}/runs", json={"flow_name": "release", "params": {"version": "3"}})
    answered = waiting_run(site)
    body = {"resumeKey": "release", "decision": "reject", "comment": "not today"}
    path = f"{site.url}/executions/{answered}/nodes/release/resume"
    httpx.post(path, json=body, headers={"X-Idempotency-Key": answered}).raise_for_status()
    unknown = httpx.post(f"{site.url}/runs", json={"flow_name": "unheard-of"}).json()["run_id"]
    httpx.get(f"{site.url}/runs/{unknown}", params={"wait": 30})
    made = httpx.post(f"{site.url}/runs", json={"flow_name": "diamond"}).json()["run_id"]
    httpx.get(f"{site.url}/runs/{made}", params={"wait": 30})
    return str(made)


def waiting_run(site: Up) -> str:
    made = httpx.post(f"{site.url}/runs", json={"flow_name": "release"}).json()["run_id"]
    wait_for(
        lambda: any(one["run_id"] == made for one in httpx.get(f"{site.url}/approvals").json()["items"]),
        "an approval",
    )
    return str(made)


@pytest.mark.parametrize(
    ("language", "theme", "window"),
    [("en", "light", WINDOW), ("ja", "dark", WINDOW), ("ja", "light", PHONE), ("en", "dark", PHONE)],
)
def test_axe_finds_nothing(
    browser: Browser, site: Up, run_id: str, language: str, theme: str, window: dict[str, int]
) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: run `make dashboard`")
    with visit(browser, site.url, language, window=window, theme=theme) as shown:
        wanted = {**PAGES, f"/runs/{run_id}": ".node", f"/runs/{run_id}?tab=events": ".event"}
        wanted[f"/runs/{run_id}?tab=details"] = ".json"
        wanted["/runs?show=timeline"] = ".track .run-bar"
        wanted[f"/runs/{run_id}/compare/{run_id}"] = ".compare-table"
        [worker] = httpx.get(f"{site.url}/workers").json()
        wanted[f"/workers/{worker['worker_id']}"] = ".worker"
        wanted[f"/approvals/{waiting_run(site)}/release"] = ".approval"
        found = {}
        for address, seen in wanted.items():
            shown.open(address)
            shown.page.locator(seen).first.wait_for()
            found[address] = violations(shown)
            wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
            assert not shown.page.evaluate(wide), f"{address} scrolls sideways"
        assert {address: list_ for address, list_ in found.items() if list_} == {}


def violations(shown: Visit) -> list[str]:
    # Past the policy that forbids the page any script but its own.
    shown.page.evaluate(AXE.read_text())
    script = "rules => axe.run(document, { runOnly: rules }).then((found) => found.violations)"
    found = shown.page.evaluate(script, RULES)
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]
    ]


def test_pages_are_reached_and_keys_explained_by_keyboard(shown: Visit, site: Up) -> None:
    shown.open("/runs")
    expect(shown.page.get_by_role("heading", name=shown.word("runs.title"), level=1)).to_be_visible()
    shown.page.keyboard.press("?")
    expect(shown.page.locator("dialog")).to_contain_text(shown.word("keys.cancel"))
    shown.page.keyboard.press("Escape")
    expect(shown.page.locator("dialog")).to_have_count(0)
    shown.page.keyboard.press("g")
    shown.page.keyboard.press("w")
    expect(shown.page.get_by_role("heading", name=shown.word("workers.title"), level=1)).to_be_visible()


def test_language_and_theme_are_chosen_here_and_kept(in_english: Visit, site: Up) -> None:
    in_english.open("/runs")
    in_english.page.get_by_label("Language").select_option("ja")
    expect(in_english.page.get_by_role("heading", level=1)).to_have_text("実行")
    in_english.page.get_by_label("外観").select_option("dark")
    in_english.page.reload()
    expect(in_english.page.get_by_role("heading", level=1)).to_have_text("実行")
    assert in_english.page.evaluate("document.documentElement.dataset.theme") == "dark"
    ground = "getComputedStyle(document.body).backgroundColor"
    assert in_english.page.evaluate(ground) == "rgb(16, 19, 24)"
    in_english.page.get_by_label("外観").select_option("light")
    assert in_english.page.evaluate(ground) == "rgb(246, 247, 249)"
    assert in_english.page.evaluate("document.documentElement.lang") == "ja"
