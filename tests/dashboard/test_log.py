"""A log of 50 000 lines is followed, searched and linked to. How smoothly: `make bench ARGS=dashboard`."""

from __future__ import annotations

import json
import re
from pathlib import Path

from playwright.sync_api import expect

from tests.cli.programs import Up
from tests.dashboard.browser import Visit

LINES = 50_000
# What a browser draws at once, whatever the rest is: that is why it does not stop.
DRAWN_MAX = 200


def test_a_log_of_many_lines_is_followed_without_jank(shown: Visit, site: Up, tmp_path: Path) -> None:
    gate = tmp_path / "go"
    shown.start("chatty", json.dumps({"lines": LINES, "gate": str(gate)}))
    counted = re.escape(shown.word("log.lines", n="NUMBER")).replace("NUMBER", "50,00[2-9]")
    expect(shown.page.locator(".log-count")).to_have_text(re.compile(counted))
    expect(shown.page.get_by_text(f"line {LINES} of {LINES}")).to_be_visible()
    assert shown.page.locator(".line").count() < DRAWN_MAX
    gate.touch()
    shown.sees("the very last line")
    shown.sees("run completed")
    shown.page.locator(".log-lines").evaluate("box => { box.scrollTop = box.scrollHeight / 2 }")
    expect(shown.page.get_by_text(f"line {LINES // 2} of {LINES}")).to_be_visible()
    assert shown.page.locator(".line").count() < DRAWN_MAX


def test_a_line_is_found_on_the_server_and_has_an_address(in_english: Visit, site: Up) -> None:
    run_id = in_english.start("chatty", '{"lines": 3000}')
    in_english.status_is("COMPLETED")
    search = in_english.page.get_by_label(in_english.word("log.search"))
    search.fill("line 1234 of")
    search.press("Enter")
    chosen = in_english.page.locator(".line.chosen")
    expect(chosen).to_contain_text("line 1234 of 3000")
    expect(in_english.page.locator(".log-hits")).to_have_text(in_english.word("log.hit", i=1, n=1))
    # The colours of what was printed are classes, never markup.
    expect(chosen.locator(".ansi-cyan")).to_have_text("the quick brown fox")
    address = in_english.page.url
    assert "line=" in address
    in_english.open("/system")
    in_english.page.goto(address)
    expect(in_english.page.locator(".line.chosen")).to_contain_text("line 1234 of 3000")
    with in_english.page.expect_download() as downloading:
        in_english.button("log.download").click()
    assert downloading.value.suggested_filename == f"{run_id[:8]}.log"
    text = Path(downloading.value.path()).read_text()
    assert text.count("\n") > 3000
    assert "line 3000 of 3000" in text
