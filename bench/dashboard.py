"""The dashboard in a real browser with 100 000 runs in the list: first paint, scrolling, filtering."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from statistics import median

from playwright.async_api import Page, async_playwright, expect

from bench.lists import fill
from bench.stack import TAG, Stack, stack

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
TIMES = 5
LINES = 50_000
# As fast as dragging the scroll bar, not as slow as the wheel: about sixty rows a frame.
PIXELS = 2_000
DEADLINE_MS = 120_000

PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
# Scrolls down until `rows` rows are loaded, and records the duration of each frame.
SCROLL = """async ({ rows, pixels }) => {
  const box = document.querySelector('.rows')
  const frames = []
  let before = performance.now()
  const until = Date.now() + 240000
  while (box.scrollHeight < rows * 34 && Date.now() < until) {
    box.scrollTop += pixels
    await new Promise(requestAnimationFrame)
    const now = performance.now()
    frames.push(now - before)
    before = now
  }
  frames.sort((a, b) => a - b)
  const at = (share) => frames[Math.floor(frames.length * share)]
  return { frames: frames.length, p50: at(0.5), p99: at(0.99), rows: Math.round(box.scrollHeight / 34) }
}"""

# Jumps to distant places and back: the rows there must be drawn in the next frame.
JUMP = """async ({ times }) => {
  const box = document.querySelector('.rows')
  const frames = []
  for (let time = 0; time < times; time += 1) {
    box.scrollTop = ((time * 7919) % 1000) / 1000 * box.scrollHeight
    const before = performance.now()
    await new Promise(requestAnimationFrame)
    frames.push(performance.now() - before)
  }
  frames.sort((a, b) => a - b)
  return { p50: frames[Math.floor(times * 0.5)], p99: frames[Math.floor(times * 0.99)] }
}"""

WATCH_LONG_TASKS = """() => {
  window.longest = 0
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration)
  }).observe({ entryTypes: ['longtask'] })
}"""


async def dashboard_cost(*, runs: int = 100_000) -> dict[str, float]:
    async with stack("interval") as started, async_playwright() as playwright:
        await started.gateway()
        await fill(started, runs)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1360, "height": 860})
        page.set_default_timeout(DEADLINE_MS)
        figures = await _first_look(page, started)
        figures |= await _filtering(page)
        figures |= await _scrolling(page, runs)
        figures |= await _following(page, started)
        await browser.close()
        return figures


async def _following(page: Page, started: Stack) -> dict[str, float]:
    """A run that prints as fast as possible, watched from its first line."""
    started.worker(concurrency=1)
    connection = await started.connect()
    body = json.dumps({"flow_name": "print", "tag": TAG, "params": {"lines": LINES}}).encode()
    await page.goto(page.url.partition("#")[0] + "#/system")
    await page.evaluate(WATCH_LONG_TASKS)
    begun = time.perf_counter()
    _, run = await connection.post("/runs", body)
    connection.close()
    await page.goto(page.url.partition("#")[0] + f"#/runs/{run['run_id']}")
    await expect(page.get_by_text(f"line {LINES - 1}", exact=True)).to_be_visible(timeout=DEADLINE_MS)
    whole = time.perf_counter() - begun
    longest = await page.evaluate("window.longest")
    drawn = await page.locator(".line").count()
    return {
        f"{LINES} lines, from submit to the last on the page, s": whole,
        "longest block of the page during that time, ms": longest,
        "lines drawn": drawn,
    }


async def _first_look(page: Page, started: Stack) -> dict[str, float]:
    paints, rows = [], []
    for _ in range(TIMES):
        begun = time.perf_counter()
        await page.goto(f"http://127.0.0.1:{started.port}/?{time.time()}#/runs", wait_until="commit")
        await page.locator(".rows .row").first.wait_for()
        rows.append((time.perf_counter() - begun) * 1000)
        paints.append(float(await page.evaluate(PAINT) or 0))
    return {"first paint, ms": median(paints), "first rows, ms": median(rows)}


async def _filtering(page: Page) -> dict[str, float]:
    """From a click on a filter to the new rows, and from the last key of a search to its only result."""
    clicks = []
    for status in ("Pending", "Completed") * TIMES:
        begun = time.perf_counter()
        await page.get_by_role("button", name=status).click()
        await page.locator(f".rows .row [data-status={status.upper()}]").first.wait_for()
        clicks.append((time.perf_counter() - begun) * 1000)
    await page.goto(page.url.partition("#")[0] + "#/runs")
    newest = await page.locator(".rows .row .id-cell").first.get_attribute("title") or ""
    await page.get_by_role("searchbox").fill(newest)
    begun = time.perf_counter()
    await expect(page.locator(".rows .row")).to_have_count(1, timeout=DEADLINE_MS)
    found = (time.perf_counter() - begun) * 1000
    await page.get_by_role("searchbox").fill("")
    return {"filter by status, ms": median(clicks), "search for the newest, ms": found}


async def _scrolling(page: Page, runs: int) -> dict[str, float]:
    """Scroll to the end of the list while it is loaded, then jump about in the loaded list."""
    await page.goto(page.url.partition("#")[0] + "#/runs")
    await page.locator(".rows .row").first.wait_for()
    scrolled = await page.evaluate(SCROLL, {"rows": runs, "pixels": PIXELS})
    again = await page.evaluate(JUMP, {"times": 200})
    memory = await page.evaluate("performance.memory.usedJSHeapSize / 1048576")
    return {
        "rows scrolled through": scrolled["rows"],
        "frame while scrolling, p50 ms": scrolled["p50"],
        "frame while scrolling, p99 ms": scrolled["p99"],
        "frame while jumping about, p50 ms": again["p50"],
        "frame while jumping about, p99 ms": again["p99"],
        "memory of the page, MB": memory,
    }
