"""A tour of a gateway: sends requests, expects a status, and keeps what was sent and answered as an example.

Scenes send what only they can send. `Tour.finish` adds the refusals that many operations have in common: it
sends the first request of an operation again: without a key, with a key of too few scopes, to a gateway
without a broker, with a body that is too large, and so on.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from starlette.requests import HTTPConnection

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api import create_app
from pyoco_server.http_api.error_answers import error_answer
from pyoco_server.store.store import Store
from tests.api_examples.calls import EVENTS, JSON, Answer, Call, Described, open_socket, send, shown_body
from tests.api_examples.flows import CATALOGUE, FLOWS
from tests.api_examples.stable import Stable
from tests.conftest import NatsServer, free_port, until
from tests.http_api.live import Live, live
from tests.http_api.serving import serving
from tests.keyring import id_of, new_key, with_wrong_secret
from tests.worker.stage import config_on, working

Examples = dict[str, dict[str, Any]]

KEY = "X-API-Key"
TENANT = "default"
SCOPES: Mapping[str, tuple[str, ...]] = {
    "admin": ("admin",),
    "of_runs": ("runs:read",),
    "of_rechecks": ("pdca:read",),
    "limited": ("admin",),
}
# The address of something that is not there, by the name of its parameter.
ABSENT = {
    "artifact_id": "999999",
    "letter_id": "999999",
    "request_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "wheel_name": "absent-1.0-py3-none-any.whl",
    "run_id": "6f0a5c1d-9a53-4d7f-8c1e-2b345b0c2f0e",
    "job_id": "6f0a5c1d-9a53-4d7f-8c1e-2b345b0c2f0e",
    "executionId": "6f0a5c1d-9a53-4d7f-8c1e-2b345b0c2f0e",
    "schedule_id": "6f0a5c1d-9a53-4d7f-8c1e-2b345b0c2f0e",
    "batch_id": "6f0a5c1d-9a53-4d7f-8c1e-2b345b0c2f0e",
}
# A parameter that is refused, the first that an operation has.
REFUSED = ("limit", "timeout_sec", "wait", "atSeq", "afterSeq", "version", "purge", "since_token")
REFUSED_TOKENS = ("sinceToken", "nextToken")
BODY_BYTES = {"upload_wheel": 600_000_000, "submit_batch": 34_000_000}


class Tour:
    def __init__(
        self, main: Live, store: Store, keys: Mapping[str, str], away: Sequence[httpx.AsyncClient]
    ) -> None:
        """`away`: clients of gateways without a broker, without and with authentication."""
        self.gateway, self.store = main.gateway, store
        self.client, self.admin = main.client, {KEY: keys["admin"]}
        self.examples: Examples = {}
        self._port = main.port
        self._keys = keys
        self._away = away
        self._first: dict[str, Call] = {}
        self._names = _names(main.gateway.config) | {id_of(keys["admin"]): "8f2c1d7e"}
        self.described = Described(create_app(NatsBackendConfig()).openapi())

    async def show(
        self,
        status: int,
        operation: str,
        /,
        *,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        kind: str = JSON,
        events: int = 1,
        **params: Any,
    ) -> Any:
        """Send, expect the status, keep the example. What was answered, as it came: JSON or text."""
        call = Call(operation, params, headers or {}, body, kind)
        answer = await self._send(call, events=events)
        return self._keep(call, answer, status)

    async def tag_of(self, operation: str, params: Mapping[str, Any]) -> str:
        request = self.described.request(Call(operation, params, self.admin), self.client)
        return str((await self.client.send(request)).headers["etag"])

    async def finish(self, limited: httpx.AsyncClient) -> None:
        """`limited`: of a gateway where few rechecks a minute are allowed."""
        for operation, call in self._first.items():
            for status in self.described.statuses(operation):
                if str(status) not in self.examples[operation]["answers"]:
                    await self._show_refusal(status, call, limited)

    async def _show_refusal(self, status: int, call: Call, limited: httpx.AsyncClient) -> None:
        call = self._wrong(status, call)
        is_recheck = self._is_recheck(call)
        match status:
            case 401:
                answer = await self._send(call, key=None)
            case 403:
                own = call.operation in ("get_caller", "get_known_key")
                key = "unknown" if own else "of_runs" if is_recheck else "of_rechecks"
                answer = await self._send(call, key=self._keys[key])
            case 413:
                answer = await self._send_head(call, BODY_BYTES.get(call.operation, 9_000_000))
            case 429 if is_recheck:
                answer = await self._until_limited(call, limited)
            case 429:
                answer = await self._while_full(call)
            case 500 if is_recheck:
                answer = self._rendered(self.described.operations[call.operation][1])
            case 502 | 503:
                client = self._away[1 if call.operation == "get_caller" else 0]
                answer = await self._send(call, client=client)
            case 400 if is_recheck and call.body is None:
                answer = await self._send(call, twice="Origin")
            case _:
                answer = await self._send(call)
        self._keep(call, answer, status)

    def _wrong(self, status: int, call: Call) -> Call:
        """The request with what is refused by this status, if that is in the request."""
        _, template, described = self.described.operations[call.operation]
        places = [one["name"] for one in described.get("parameters", ()) if one["in"] != "header"]
        params, headers = dict(call.params), dict(call.headers)
        known = REFUSED_TOKENS if status == 400 else REFUSED
        wrong = next((one for one in known if one in places), None)
        match status:
            case 404:
                named = template.partition("{")[2].partition("}")[0]
                return replace(call, params=params | {named: ABSENT.get(named, "absent")})
            case 406:
                return replace(call, headers=headers | {"Accept": "image/png"})
            case 415:
                return replace(call, headers=headers | {"Content-Type": "text/plain"}, body=b"text")
            case 416:
                return replace(call, headers=headers | {"Range": "bytes=1000000-"})
            case 400 if call.body is not None:
                return replace(call, body=b"{")
            case 400 | 422 if wrong is not None:
                return replace(call, params=params | {wrong: "x"})
            case 422:
                return replace(call, body=[])
            case 429:
                more = {name: value for name, value in (("wait", 1), ("q", "order")) if name in places}
                return call if self._is_recheck(call) else replace(call, params=params | more)
        return call

    def _is_recheck(self, call: Call) -> bool:
        return self.described.operations[call.operation][1].startswith(("/pdca/", "/gui/"))

    async def _send(
        self,
        call: Call,
        *,
        key: str | None = "",
        client: httpx.AsyncClient | None = None,
        twice: str = "",
        events: int = 1,
    ) -> Answer:
        """`key`: empty for the administrator's. `twice`: a header that is sent two times."""
        used = client or self.client
        request = self.described.request(call, used)
        if key is not None and client not in self._away[:1]:
            request.headers[KEY] = key or self._keys["admin"]
        if twice:
            doubled = [*request.headers.raw, (twice.encode(), b"http://a"), (twice.encode(), b"http://b")]
            request.headers = httpx.Headers(doubled)
        if self.described.is_socket(call.operation):
            return await open_socket(request)
        return await send(used, request, events=events)

    async def _send_head(self, call: Call, length: int) -> Answer:
        """Announces a body that is never sent."""
        request = self.described.request(replace(call, body=b"{}"), self.client)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        kind = {"Content-Type": call.kind if call.kind == JSON else f"{call.kind}; boundary=b"}
        own = {"Host": "127.0.0.1", "Connection": "close", "Content-Length": str(length)}
        sent = {**kind, **call.headers, **self.admin, **own}
        lines = [f"{name}: {value}\r\n" for name, value in sent.items()]
        head = f"{request.method} {request.url.raw_path.decode()} HTTP/1.1\r\n{''.join(lines)}\r\n"
        writer.write(head.encode())
        try:
            first, _, body = (await reader.read()).partition(b"\r\n\r\n")
        finally:
            writer.close()
        return Answer(int(first.split(b" ", 2)[1]), JSON, body)

    async def _until_limited(self, call: Call, limited: httpx.AsyncClient) -> Answer:
        for _ in range(4):
            answer = await self._send(call, key=self._keys["limited"], client=limited)
            if answer.status == 429:
                return answer
        raise AssertionError(f"{call.operation} was not limited")

    async def _while_full(self, call: Call) -> Answer:
        """All streams and searches that one caller may have are open."""
        caller = f"{TENANT}/api_key:{id_of(self._keys['admin'])}"
        limits = [self.gateway.streams.concurrency, self.gateway.log_pages.searches.concurrency]
        left = [limit.enter(caller) for limit in limits for _ in range(limit._per_caller)]
        try:
            return await self._send(call)
        finally:
            for leave in left:
                leave()

    def _rendered(self, path: str) -> Answer:
        """What no request provokes: the answer to an error that is not expected."""
        scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
        answer = error_answer(HTTPConnection(scope), RuntimeError())
        return Answer(answer.status_code, JSON, bytes(answer.body))

    def _keep(self, call: Call, answer: Answer, status: int) -> Any:
        text = answer.body.decode("utf-8", "replace")
        assert answer.status == status, (call, answer.status, text)
        assert status in self.described.statuses(call.operation), (call.operation, status)
        stable = Stable(self._names)
        kept = self.examples.setdefault(call.operation, {"params": {}, "body": {}, "answers": {}})
        sent = self._shown_params(call, stable)
        if status < 400:
            self._first.setdefault(call.operation, call)
            for name, value in sent.items():
                kept["params"].setdefault(name, value)
            if call.body is not None:
                kept["body"].setdefault(call.kind, stable.value(shown_body(call.body)))
        shown = kept["answers"].setdefault(str(status), {})
        if answer.kind == JSON:
            shown.setdefault(JSON, stable.value(json.loads(text)))
            return json.loads(text)
        if text:
            shown.setdefault(answer.kind, self._stable_text(stable, answer.kind, text))
        return text

    def _shown_params(self, call: Call, stable: Stable) -> dict[str, Any]:
        declared = {one["name"] for one in self.described.operations[call.operation][2].get("parameters", ())}
        given = {**call.params, **call.headers}
        return {name: stable.value(value, name) for name, value in given.items() if name in declared}

    def _stable_text(self, stable: Stable, kind: str, text: str) -> str:
        if kind == EVENTS:
            return stable.events(text)
        if kind == "application/x-ndjson":
            return "".join(f"{json.dumps(stable.value(json.loads(line)))}\n" for line in text.splitlines())
        if kind == "application/octet-stream":
            return "(bytes)"
        return stable.metrics(text) if text.startswith("# HELP") else stable.text(text)


def _names(config: NatsBackendConfig) -> dict[str, str]:
    """Names that only this tour has at the broker, and their defaults."""
    name = config.runs_kv_bucket.removesuffix("_runs")
    streams = {config.work_stream: "PYOCO_WORK", config.dlq_stream: "PYOCO_DLQ"}
    return streams | {name: "pyoco", name.upper(): "PYOCO", socket.gethostname(): "worker-1.example.com"}


@asynccontextmanager
async def touring(server: NatsServer, folder: Path) -> AsyncIterator[tuple[Tour, httpx.AsyncClient]]:
    """A gateway with authentication and a worker; and a client of one where few rechecks are allowed."""
    (folder / "strategies.yaml").write_text(CATALOGUE, encoding="utf-8")
    own: dict[str, Any] = {"http_auth_mode": "api_key", "strategies_file": str(folder / "strategies.yaml")}
    config = config_on(server, **own)
    few: dict[str, Any] = {"recheck_reads_per_min": 2, "recheck_per_min": 2, "recheck_all_per_min": 2}
    nowhere: dict[str, Any] = {"nats_url": f"nats://127.0.0.1:{free_port()}", "start_wait_sec": 0.0}
    async with AsyncExitStack() as stack:
        main = await stack.enter_async_context(live(config))
        limited = await stack.enter_async_context(serving(dataclasses.replace(config, **few)))
        open_to_all = dataclasses.replace(config, http_auth_mode="none", **nowhere)
        away = [
            (await stack.enter_async_context(live(one, wait_ready=False))).client
            for one in (open_to_all, dataclasses.replace(config, **nowhere))
        ]
        store = await Store.connect(config, name="tour")
        stack.push_async_callback(store.close)
        keys = {name: await new_key(store, TENANT, scopes=scopes) for name, scopes in SCOPES.items()}
        tour = Tour(main, store, keys | {"unknown": with_wrong_secret(keys["admin"])}, away)
        for client in (main.client, limited):
            await until(partial(_knows_all, client, keys))
        async with working(config, FLOWS, worker_id="worker-1", concurrency=2) as worker:
            serving_runs = asyncio.create_task(worker.serve())
            yield tour, limited
            worker.stop()
            await serving_runs


async def _knows_all(client: httpx.AsyncClient, keys: Mapping[str, str]) -> bool:
    answers = [await client.get("/caller", headers={KEY: key}) for key in keys.values()]
    return all(one.status_code == 200 for one in answers)
