"""`make pictures`: every page with something in it, in both themes and on a phone, into `docs/img`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
from playwright.sync_api import Browser, Page, expect

from tests.cli.programs import Programs, Up, wait_for
from tests.dashboard.browser import PHONE, ROOT, Visit, chromium, visit
from tests.dashboard.site import everything
from tests.store.fleet.wheel_making import made

WINDOW = {"width": 1280, "height": 800}
FLOWS = Path(__file__).with_name("picture_flows.py")
IMAGES = ROOT / "docs" / "img"
GRACE_SEC = 20
STRATEGIES = [
    f"{market}.{pace}" for market in ("usdjpy", "eurusd", "gold", "oil") for pace in ("fast", "slow")
]


# A traceback has the folder of this checkout, which is another one on each machine.
FOLDER_SHOWN = "/srv/shop"
WITHOUT_FOLDER = """([folder, shown]) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walk.nextNode()) walk.currentNode.data = walk.currentNode.data.replaceAll(folder, shown)
}"""


class Scene(NamedTuple):
    """What is opened, and what must be seen before the picture is taken. `act`: what is done first."""

    name: str
    address: str
    seen: str
    act: Callable[[Visit], None] = lambda _: None
    all_looks: bool = True


# Before anything is staged.
EMPTY = Scene("empty", "/runs", ".start-page .main", all_looks=False)


def main() -> None:
    wanted = set(sys.argv[1:])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        programs = Programs(folder)
        stack.callback(programs.end_all)
        site = started(programs)
        browser = stack.enter_context(chromium())
        IMAGES.mkdir(exist_ok=True)
        if not wanted or EMPTY.name in wanted:
            take(browser, site, EMPTY)
        for scene in staged(site, folder):
            if not wanted or scene.name in wanted:
                take(browser, site, scene)


def started(programs: Programs) -> Up:
    lines = [
        f"  - {{id: {one}, title: {one.upper()}, instrument: {one.partition('.')[0].upper()}, tags: [daily]}}"
        for one in STRATEGIES
    ]
    catalogue = "\n".join(["strategies:", *lines, ""])
    arguments = ("--concurrency", 6, "--worker-id", "studio")
    return everything(programs, FLOWS, catalogue, *arguments, grace_sec=GRACE_SEC)


def staged(site: Up, folder: Path) -> list[Scene]:
    """Something to see on every page: runs of all kinds, a wheel, schedules, letters, rechecks."""
    api = httpx.Client(base_url=site.url, timeout=60)
    for number in range(24):
        submit(
            api, ("thumbnails", "nightly_orders")[number % 2], {"pictures": number} if number % 2 == 0 else {}
        )
    failed = submit(api, "train_model", {"days": 30, "depth": 12})
    ended = submit(api, "nightly_orders")
    submit(api, "unheard_of")
    waiting = [submit(api, "release", {"version": version}) for version in ("1.4.0", "1.3.9")]
    cancelled = submit(api, "import_archive")
    wait_for(lambda: api.get(f"/runs/{cancelled}").json()["tasks"], "a run that hears nothing")
    api.post(f"/runs/{cancelled}/cancel", json={"reason": "the archive is the wrong one"})
    wheel = made(folder, "shop_tasks", "1.4.0")
    api.post("/wheels", files={"wheel": (wheel.name, wheel.read_bytes())})
    for when in ({"cron": "30 2 * * *", "timezone": "Asia/Tokyo"}, {"interval_seconds": 900}):
        api.post("/schedules", json={"flow_name": ("thumbnails", "nightly_orders")["cron" in when]} | when)
    body = {"strategies": STRATEGIES, "reason": "weekly", "dry_run": False, "window": {"lookback_days": 30}}
    accepted = api.post("/pdca/recheck", json=body, headers={"Idempotency-Key": "for-the-picture"})
    recheck = accepted.raise_for_status().json()["request_id"]
    for run_id in (failed, ended, cancelled):
        while not api.get(f"/runs/{run_id}", params={"wait": 60}).json()["end_time"]:
            pass  # it is asked until it is over
    wait_for(lambda: len(api.get("/approvals").json()["items"]) == 2, "two who wait")
    gpu = submit(api, "train_model", {"days": 7}, tag="gpu")
    stopping = submit(api, "import_archive")
    running = submit(api, "nightly_orders", {"pace": 0.8})
    wait_for(
        lambda: api.get(f"/runs/{running}").json()["tasks"].get("check_totals") == "RUNNING", "the fifth task"
    )
    return [
        Scene("runs", "/runs", ".rows .row"),
        Scene("run", f"/runs/{running}", ".node[data-node=check_totals][data-status=RUNNING]"),
        Scene("approvals", "/approvals", ".approval"),
        Scene("workers", "/workers", "tr[data-worker]"),
        Scene("flows", "/flows", "tr[data-flow]"),
        Scene("flow", "/flows/nightly_orders", ".node"),
        Scene("schedules", "/schedules", "tr[data-schedule]"),
        Scene("wheels", "/wheels", "tbody tr"),
        Scene("worker", "/workers/studio", "[data-slot]", all_looks=False),
        Scene("timeline", "/runs?show=timeline", ".timeline-row .run-bar", all_looks=False),
        Scene("compare", f"/runs/{ended}/compare", ".compare .table-box", all_looks=False),
        Scene("dead-letters", "/dlq", "tr[data-letter]"),
        Scene("strategies", f"/strategies?requests={recheck}", "[data-request] [data-status=COMPLETED]"),
        Scene("system", "/system", "tbody tr"),
        Scene("failed", f"/runs/{failed}", ".node[data-status=FAILED]", choose("fit"), all_looks=False),
        Scene("then", f"/runs/{ended}?tab=events", ".event", go_back, all_looks=False),
        Scene("waiting", f"/runs/{waiting[0]}", ".node[data-status=WAITING]", all_looks=False),
        Scene("why", f"/runs/{gpu}", ".why", all_looks=False),
        Scene("cancelled", f"/runs/{cancelled}", ".cancel-story", all_looks=False),
        Scene("start", "/flows", "tr[data-flow]", open_form, all_looks=False),
        Scene("schedule", "/schedules?new=1&flow=nightly_orders", "dialog", all_looks=False),
        Scene("cancelling", f"/runs/{stopping}", ".node", cancel, all_looks=False),
    ]


def submit(
    api: httpx.Client, flow: str, params: dict[str, object] | None = None, tag: str = "default"
) -> str:
    body = {"flow_name": flow, "params": params or {}, "tag": tag}
    return str(api.post("/runs", json=body).json()["run_id"])


def choose(task: str) -> Callable[[Visit], None]:
    def act(shown: Visit) -> None:
        shown.page.get_by_role("tab", name=shown.word("run.details")).click()
        shown.page.locator(f".node[data-node={task}]").click()

    return act


def go_back(shown: Visit) -> None:
    shown.page.locator(".event button", has_text="NODE_STARTED").nth(3).click()


def open_form(shown: Visit) -> None:
    shown.page.get_by_role("button", name=f"{shown.word('flows.start')}: nightly_orders", exact=True).click()


def cancel(shown: Visit) -> None:
    shown.button("do.cancel").click()
    shown.dialog_button("cancel.do").click()
    expect(shown.page.locator(".live-cancel progress")).to_be_visible()


def take(browser: Browser, site: Up, scene: Scene) -> None:
    looks = {scene.name: (WINDOW, "light", "en")}
    if scene.all_looks:
        looks[f"{scene.name}-dark"] = (WINDOW, "dark", "en")
        looks[f"{scene.name}-phone"] = (PHONE, "light", "ja")
    for name, (window, theme, language) in looks.items():
        with visit(browser, site.url, language, window=window, theme=theme, forgives=lambda _: True) as shown:
            shown.open(scene.address)
            shown.page.locator(scene.seen).first.wait_for()
            expect(shown.page.locator(".live.good")).to_be_visible()
            scene.act(shown)
            settled(shown.page)
            shown.page.evaluate(WITHOUT_FOLDER, [str(ROOT), FOLDER_SHOWN])
            shown.page.screenshot(path=IMAGES / f"{name}.png")


def settled(page: Page) -> None:
    """Nothing is on its way any more: fonts are there, and two frames were drawn."""
    frame = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    page.evaluate(f"document.fonts.ready.then(() => {frame})")
    page.wait_for_timeout(400)  # the graph finds its place


if __name__ == "__main__":
    main()
