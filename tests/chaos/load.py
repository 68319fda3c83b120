"""Clients of all faces under faults: each sends a request with its key until it is answered, at any gateway.

A story is what one client does. Which stories are begun, and in which order, follows from the seed.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx

from pyoco_server.ids import new_ulid
from tests.chaos.evidence import Created, Evidence, Reported, Wanted

REQUEST_TIMEOUT_SEC = 8.0
RETRY_PAUSE_SEC = 0.25
# After the end of the faults: a request that is not answered by then is a violation.
ANSWERED_WITHIN_SEC = 60.0
REPORTS = 3
GRAPH_ID = "chaos"
OVER = ("COMPLETED", "FAILED", "CANCELLED")


class GaveUp(Exception):
    """Refused, or not answered in time; it was written down."""


class Load:
    def __init__(self, urls: Sequence[str], evidence: Evidence, seed: int, *, at_once: int = 12) -> None:
        self._urls = urls
        self._evidence = evidence
        self._chance = random.Random(seed)
        self._at_once = at_once
        self._numbers = itertools.count(1)
        self._name = f"{seed}-{new_ulid()}"
        self._client = httpx.AsyncClient(timeout=REQUEST_TIMEOUT_SEC)
        self._stories: set[asyncio.Task[None]] = set()
        self._begun: asyncio.Task[None] | None = None
        self._deadline: float | None = None
        self._told: dict[Callable[..., Awaitable[None]], int] = {
            self._run_ends: 5,
            self._run_is_cancelled: 3,
            self._run_is_approved: 2,
            self._large_result: 2,
            self._job_is_erased: 2,
            self._execution_is_driven: 2,
            self._recheck: 1,
        }

    async def prepare(self) -> None:
        answer = await self._client.put(f"{self._urls[0]}/graphs/{GRAPH_ID}", json={"nodes": [{"id": "a"}]})
        answer.raise_for_status()

    def start(self, every_sec: float) -> None:
        self._begun = asyncio.create_task(self._begin(every_sec))

    async def finish(self) -> None:
        """No new stories; those under way have this long to be answered. The faults are over."""
        assert self._begun is not None
        self._begun.cancel()
        self._deadline = asyncio.get_running_loop().time() + ANSWERED_WITHIN_SEC
        await asyncio.gather(*self._stories)

    async def close(self) -> None:
        for story in self._stories:
            story.cancel()
        await self._client.aclose()

    async def _begin(self, every_sec: float) -> None:
        """Each kind of story once, then by chance."""
        first = self._chance.sample(list(self._told), len(self._told))
        while True:
            if len(self._stories) < self._at_once:
                by_chance = self._chance.choices(list(self._told), list(self._told.values()))
                story = asyncio.create_task(self._tell(first.pop() if first else by_chance[0]))
                self._stories.add(story)
                story.add_done_callback(self._stories.discard)
            await asyncio.sleep(every_sec)

    async def _tell(self, tell: Callable[[], Awaitable[None]]) -> None:
        try:
            await tell()
        except GaveUp:
            return

    # The stories

    async def _run_ends(self) -> None:
        await self._submitted(self._chance.choice(["quick", "steps"]))

    async def _run_is_cancelled(self) -> None:
        pause = self._chance.uniform(0.0, 2.5)
        run_id = await self._submitted("steps")
        await asyncio.sleep(pause)
        cancelled = await self._sent(Wanted(self._key("cancel"), f"/runs/{run_id}/cancel", {}))
        if cancelled["status"] in ("CANCELLING", "CANCELLED"):
            self._evidence.cancelled.add(run_id)

    async def _run_is_approved(self) -> None:
        run_id = await self._submitted("release")
        await self._until(run_id, lambda run: run["tasks"].get("release") in ("WAITING", "RUNNING"))
        answer = {"by": run_id}
        body = {"resumeKey": "release", "payload": answer}
        path = f"/executions/{run_id}/nodes/release/resume"
        await self._sent(Wanted(self._key("approve"), path, body, "X-Idempotency-Key"))
        self._evidence.approved[run_id] = answer

    async def _large_result(self) -> None:
        await self._submitted("large")

    async def _job_is_erased(self) -> None:
        key = self._key("job")
        wanted = Wanted(key, "/jobs", {"flow": "quick", "parameters": {"key": key}})
        run_id = await self._created(wanted, "id", "quick", {"key": key})
        await self._until(run_id, lambda run: run["status"] in OVER)
        await self._asked("DELETE", f"/jobs/{run_id}?purge=true", accepts=(204, 404))
        self._evidence.erased.add(run_id)

    async def _execution_is_driven(self) -> None:
        key = self._key("execution")
        wanted = Wanted(key, "/executions", {"graphId": GRAPH_ID, "input": {"key": key}}, "X-Idempotency-Key")
        run_id = await self._created(wanted, "executionId", f"graph:{GRAPH_ID}", {"key": key})
        await self._commanded(run_id, "start", {})
        await self._commanded(run_id, "nodes/a/start", {"attempt": 1, "workerId": "w"})
        for number in range(REPORTS):
            message = f"report {number}"
            await self._commanded(run_id, "nodes/a/progress", {"progress": number, "message": message})
            self._evidence.reported.append(Reported(run_id, "a", message))
        await self._commanded(run_id, "nodes/a/success", {"output": {"of": "a"}})
        self._evidence.succeeded.add((run_id, "a"))

    async def _recheck(self) -> None:
        body = {"strategies": ["strat.a"], "reason": "manual", "dry_run": False}
        wanted = Wanted(new_ulid(), "/pdca/recheck", body)
        accepted = await self._sent(wanted)
        run_id = accepted["dag"]["run_id"]
        known = {"request_id": accepted["request_id"]}
        self._evidence.created[wanted.key] = Created(wanted, run_id, [], "pdca_recheck", known)

    # What they are made of

    def _key(self, what: str) -> str:
        return f"{what} {self._name} {next(self._numbers)}"

    async def _submitted(self, flow: str) -> str:
        key = self._key("run")
        wanted = Wanted(key, "/runs", {"flow_name": flow, "params": {"key": key}})
        return await self._created(wanted, "run_id", flow, {"key": key})

    async def _created(self, wanted: Wanted, member: str, flow: str, params: dict[str, Any]) -> str:
        answer = await self._asked_with_key(wanted)
        run_id = str(answer.json()[member])
        self._evidence.created[wanted.key] = Created(wanted, run_id, [answer.content], flow, params)
        return run_id

    async def _commanded(self, run_id: str, verb: str, body: dict[str, Any]) -> None:
        path = f"/executions/{run_id}/{verb}"
        await self._sent(Wanted(self._key(verb.replace("/", " ")), path, body, "X-Idempotency-Key"))

    async def _sent(self, wanted: Wanted) -> dict[str, Any]:
        found: dict[str, Any] = (await self._asked_with_key(wanted)).json()
        return found

    async def _asked_with_key(self, wanted: Wanted) -> httpx.Response:
        headers = {wanted.key_header: wanted.key}
        return await self._asked(wanted.method, wanted.path, wanted.body, headers)

    async def _until(self, run_id: str, is_so: Callable[[dict[str, Any]], bool]) -> None:
        while True:
            run = (await self._asked("GET", f"/runs/{run_id}")).json()
            if is_so(run):
                return
            if run["status"] in OVER:
                self._evidence.refused.append((run_id, f"it ended {run['status']} before what is waited for"))
                raise GaveUp
            await asyncio.sleep(RETRY_PAUSE_SEC)

    async def _asked(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        accepts: tuple[int, ...] = (200, 201, 202, 204),
    ) -> httpx.Response:
        """Until it is answered: a 5xx or a broken connection is none."""
        urls = itertools.cycle(self._chance.sample(self._urls, len(self._urls)))
        last = "nothing"
        while True:
            answer = await self._once(method, next(urls) + path, body, headers)
            if answer is not None and answer.status_code in accepts:
                return answer
            if answer is not None and answer.status_code < 500:
                what = f"{method} {path}: {answer.status_code} {answer.text[:300]}"
                self._evidence.refused.append((path, what))
                raise GaveUp
            last = "no answer" if answer is None else f"{answer.status_code} {answer.text[:200]}"
            if self._deadline is not None and asyncio.get_running_loop().time() > self._deadline:
                self._evidence.unanswered.append((path, f"{method} {path}: {last}"))
                raise GaveUp
            await asyncio.sleep(RETRY_PAUSE_SEC)

    async def _once(
        self, method: str, url: str, body: dict[str, Any] | None, headers: dict[str, str] | None
    ) -> httpx.Response | None:
        try:
            answer = await self._client.request(method, url, json=body, headers=headers)
        except httpx.HTTPError:
            self._evidence.statuses[0] += 1
            return None
        self._evidence.statuses[answer.status_code] += 1
        if answer.status_code == 500:  # no fault explains a defect
            self._evidence.refused.append((url, f"{method} {url}: 500 {answer.text[:300]}"))
        return answer
