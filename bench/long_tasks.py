"""The longest tasks of the main thread of the dashboard, with many runs in the list, by what a person does.

Two figures for each: the processor time of the longest task, and its duration, which includes the time during
which other processes had the processor. Both come from Chromium's own trace.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from playwright.async_api import CDPSession, Page, async_playwright, expect

from bench.dashboard import CHROMIUM, DEADLINE_MS, FLAGS
from bench.lists import fill
from bench.stack import TAG, Stack, stack

MAIN_THREAD = "CrRendererMain"
PAGES = (
    "runs?show=timeline",
    "flows",
    "flows/flow_1",
    "approvals",
    "workers",
    "schedules",
    "wheels",
    "dlq",
    "system",
)
NEW_RUNS = 300
TRACE = {"transferMode": "ReportEvents", "traceConfig": {"includedCategories": ["toplevel", "__metadata"]}}

# As fast as dragging the scroll bar, until so many rows are loaded.
SCROLL = """async (rows) => {
  const box = document.querySelector('.rows')
  const until = Date.now() + 240000
  while (box.scrollHeight < rows * 34 && Date.now() < until) {
    box.scrollTop += 4000
    await new Promise(requestAnimationFrame)
  }
  return Math.round(box.scrollHeight / 34)
}"""


async def longest_tasks(*, runs: int = 100_000) -> dict[str, float]:
    async with stack("interval") as started, async_playwright() as playwright:
        await started.gateway()
        await fill(started, runs)
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = await browser.new_page(viewport={"width": 1360, "height": 860})
        page.set_default_timeout(DEADLINE_MS)
        tracer = Tracer(await browser.new_browser_cdp_session())
        await page.goto("about:blank")
        figures: dict[str, float] = {}
        for name, act in _acts(page, started, runs):
            async with tracer.tracing():
                await act()
            figures[f"{name}: longest task, processor ms"] = tracer.processor_ms
            figures[f"{name}: longest task, ms"] = tracer.wall_ms
        await browser.close()
        return figures


class Tracer:
    """The longest tasks of main threads while `tracing`, in milliseconds."""

    def __init__(self, session: CDPSession) -> None:
        self._session = session
        self._events: list[dict[str, Any]] = []
        self._complete = asyncio.Event()
        session.on("Tracing.dataCollected", lambda data: self._events.extend(data["value"]))
        session.on("Tracing.tracingComplete", lambda _: self._complete.set())
        self.processor_ms = self.wall_ms = 0.0

    @asynccontextmanager
    async def tracing(self) -> AsyncIterator[None]:
        self._events.clear()
        self._complete.clear()
        await self._session.send("Tracing.start", TRACE)
        yield
        await self._session.send("Tracing.end")
        await self._complete.wait()
        tasks = list(self._tasks())
        assert tasks, "the trace has no task of a main thread"
        self.processor_ms = max(one.get("tdur", 0) for one in tasks) / 1000
        self.wall_ms = max(one.get("dur", 0) for one in tasks) / 1000

    def _tasks(self) -> list[dict[str, Any]]:
        threads = {
            (one["pid"], one["tid"])
            for one in self._events
            if one["name"] == "thread_name" and one["args"]["name"] == MAIN_THREAD
        }
        return [
            one
            for one in self._events
            if one["ph"] == "X" and one["name"].endswith("RunTask") and (one["pid"], one["tid"]) in threads
        ]


def _acts(page: Page, started: Stack, runs: int) -> list[tuple[str, Callable[[], Awaitable[None]]]]:
    address = f"http://127.0.0.1:{started.port}/"
    rows = page.locator(".rows .row")

    async def open_list() -> None:
        await page.goto(f"{address}#/runs")
        await rows.first.wait_for()

    async def narrow() -> None:
        for status in ("Pending", "Completed", "Completed", "Pending"):
            await page.get_by_role("button", name=status).click()
            await page.wait_for_timeout(300)
        for words in ("submitted", "-submitted", "-duration", ""):
            await page.goto(f"{address}#/runs?sort={words}")
            await rows.first.wait_for()

    async def scroll() -> None:
        await page.goto(f"{address}#/runs")
        await rows.first.wait_for()
        assert await page.evaluate(SCROLL, runs) >= runs

    async def select_all() -> None:
        everything = page.locator(".row.head input")
        await everything.check()
        await everything.uncheck()
        for key in "jjjkxx":
            await page.keyboard.press(key)

    async def follow() -> None:
        """New runs come while all are loaded, first below the top, then at the top."""
        connection = await started.connect()
        for place in ("1e9", "0"):
            await page.evaluate(f"document.querySelector('.rows').scrollTop = {place}")
            for _ in range(NEW_RUNS):
                body = json.dumps({"flow_name": "new", "tag": TAG}).encode()
                await connection.post("/runs", body)
            await page.wait_for_timeout(1000)
        connection.close()
        await expect(rows.first).to_contain_text("new")

    async def visit(one: str) -> None:
        await page.goto(f"{address}#/{one}")
        await page.locator("main h1").first.wait_for()
        await page.wait_for_timeout(500)

    async def one_run() -> None:
        await page.goto(f"{address}#/runs")
        await rows.nth(5).locator(".flow-cell a").first.click()
        await page.locator(".log").first.wait_for()
        await page.wait_for_timeout(500)
        await page.go_back()
        await rows.first.wait_for()

    return [
        ("open the list", open_list),
        ("filter and sort", narrow),
        (f"scroll through {runs} runs", scroll),
        ("select all, move by keys", select_all),
        ("new runs", follow),
        *((f"open /{one}", partial(visit, one)) for one in PAGES),
        ("a run and back", one_run),
    ]
