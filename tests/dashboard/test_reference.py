"""`/docs`, the description of the API to try out: from the gateway alone, under the dashboard's policy."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Route, expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit


def test_the_reference_is_shown_and_tried_out_without_any_other_host(in_english: Visit, site: Up) -> None:
    page, own, foreign = in_english.page, urlsplit(site.url).netloc, []

    def only_here(route: Route) -> None:
        if urlsplit(route.request.url).netloc == own:
            route.fallback()
        else:
            foreign.append(route.request.url)
            route.abort()

    page.route("**/*", only_here)
    page.goto(f"{site.url}/docs")
    expect(page.locator(".opblock").first).to_be_visible()
    described = httpx.get(f"{site.url}/openapi.json").json()["paths"]
    operations = [
        one for path in described.values() for one in path if one in ("get", "post", "put", "patch", "delete")
    ]
    expect(page.locator(".opblock")).to_have_count(len(operations))
    health = page.locator(".opblock", has=page.locator('[data-path="/health"]'))
    health.locator(".opblock-summary-control").first.click()
    health.get_by_role("button", name="Try it out").click()
    with page.expect_response(f"{site.url}/health") as answered:
        health.get_by_role("button", name="Execute").click()
    assert answered.value.status == 200
    expect(health.locator(".live-responses-table .response-col_status").last).to_contain_text("200")
    assert foreign == []
    # A script or style that the policy refuses is told in the console, which the visit looks at.


def test_it_has_the_policy_of_the_dashboard(site: Up) -> None:
    reference, dashboard = httpx.get(f"{site.url}/docs"), httpx.get(f"{site.url}/")
    policy = reference.headers["content-security-policy"]
    assert policy == dashboard.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert "http" not in reference.text.partition("<head>")[2]
    assert httpx.get(f"{site.url}/redoc").status_code == 404
