"""What a client may take of a gateway before it has shown a key: time, bytes and connections have limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from pyoco_server.config import NatsBackendConfig
from pyoco_server.http_api.middleware import refusal_log
from pyoco_server.http_api.server import connections
from pyoco_server.http_api.server.connections import is_proxy
from pyoco_server.http_api.server.protocol import BODY, PIPELINED_MAX, HttpProtocol
from tests.conftest import NatsServer, free_port, until
from tests.http_api.live import Live, live
from tests.worker.stage import config_on

SOON_SEC = 15.0
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Peer(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ended(self) -> bytes:
        """Everything until the other side is done with us."""
        async with asyncio.timeout(SOON_SEC):
            got = b""
            with contextlib.suppress(ConnectionError):
                while more := await self.reader.read(65_536):
                    got += more
            return got

    async def status(self) -> int:
        async with asyncio.timeout(SOON_SEC):
            return int((await self.reader.readline()).split()[1])

    def send(self, data: bytes) -> None:
        self.writer.write(data)


@asynccontextmanager
async def peer(gateway: Live) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def gateway(**changes: Any) -> AsyncIterator[Live]:
    """Without a broker: what is tested here happens before one is needed."""
    config = NatsBackendConfig(nats_url=f"nats://127.0.0.1:{free_port()}", start_wait_sec=0, **changes)
    async with live(config, wait_ready=False, http=HttpProtocol) as started:
        yield started


async def test_a_silent_connection_is_closed() -> None:
    async with gateway(http_header_timeout_sec=0.2) as started, peer(started) as silent:
        assert await silent.ended() == b""
        assert started.gateway.connections.rejected["header_timeout"] == 1
        await until(lambda: started.gateway.connections.open == 0)


@pytest.mark.parametrize("sent", [b"GET /health HTTP/1.1\r\nHost: loc", b"\r\n", b"G"])
async def test_half_a_head_is_answered_408_and_closed(sent: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with gateway(http_header_timeout_sec=0.2) as started, peer(started) as slow:
        slow.send(sent)
        assert (await slow.ended()).startswith(b"HTTP/1.1 408 ")
    assert [one["http_status"] for one in refusals(caplog)] == [408]


async def test_a_flood_of_nonsense_is_counted_instead_of_logged_line_by_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusal_log, "CALLER_LINES_BURST", 3)
    monkeypatch.setattr(refusal_log, "CALLER_LINES_PER_SEC", 0.0)
    monkeypatch.setattr(refusal_log, "LEFT_OUT_EVERY_SEC", 0.05)
    caplog.set_level(logging.INFO)

    def left_out() -> int:
        return sum(getattr(record, "left_out", 0) for record in caplog.records)

    async with gateway() as started:
        for _ in range(8):
            async with peer(started) as one:
                one.send(b"nonsense\r\n\r\n")
                assert await one.status() == 400
        await until(lambda: left_out() == 5)
    assert len(refusals(caplog)) == 3


async def test_a_byte_now_and_then_buys_no_time() -> None:
    async with gateway(http_header_timeout_sec=0.5) as started, peer(started) as slow:

        async def drip() -> None:
            for byte in REQUEST[:-1] * 100:
                slow.send(bytes([byte]))
                await asyncio.sleep(0.02)

        dripping = asyncio.ensure_future(drip())
        assert (await slow.ended()).startswith(b"HTTP/1.1 408 ")
        dripping.cancel()


@pytest.mark.parametrize("length", [b"Transfer-Encoding: chunked", b"Content-Length: 1000000"])
async def test_a_body_that_never_ends_is_ended(nats_server: NatsServer, length: bytes) -> None:
    head = (
        b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + length + b"\r\n\r\n"
    )
    limits = {"http_body_timeout_sec": 0.3, "http_body_min_bytes_per_sec": 1_000}
    async with live(config_on(nats_server, **limits), http=HttpProtocol) as started, peer(started) as slow:
        slow.send(head)
        assert (await slow.ended()).startswith(b"HTTP/1.1 408 ")
        await until(lambda: started.gateway.connections.open == 0)
        assert started.gateway.connections.rejected["body_timeout"] == 1


async def test_a_body_that_nobody_waits_for_is_ended_too() -> None:
    """Answered early, 503 here; then the connection must not live on for the body's sake."""
    async with gateway(http_body_timeout_sec=0.3) as started, peer(started) as slow:
        slow.send(b"POST /runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")
        assert (await slow.ended()).startswith(b"HTTP/1.1 503 ")
        await until(lambda: started.gateway.connections.open == 0)


async def test_a_slow_body_that_comes_fast_enough_is_taken() -> None:
    limits = {"http_body_timeout_sec": 0.3, "http_body_min_bytes_per_sec": 10}
    async with gateway(**limits) as started, peer(started) as slow:
        slow.send(b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60\r\n\r\n")
        for _ in range(6):
            slow.send(b" " * 10)
            await asyncio.sleep(0.1)
        assert await slow.status() == 405
        assert started.gateway.connections.rejected["body_timeout"] == 0


async def test_a_connection_without_a_next_request_is_closed() -> None:
    async with gateway(http_idle_timeout_sec=0.2) as started, peer(started) as idle:
        idle.send(REQUEST)
        assert (await idle.ended()).endswith(b'{"status":"ok"}')


async def test_line_breaks_between_requests_keep_nothing_alive() -> None:
    async with gateway(http_header_timeout_sec=0.3) as started, peer(started) as idle:
        idle.send(REQUEST)
        await idle.reader.readuntil(b'{"status":"ok"}')
        idle.send(b"\r\n")
        assert b" 408 " in await idle.ended()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 70_000 + b"\r\n\r\n", 431),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 1_000_000, 431),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 200_000, 431),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"GET /" + b"x" * 2_000_000, 414),
        (b"GET /health?" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", 414),
        (b"nonsense\r\n\r\n", 400),
    ],
    ids=[
        "header",
        "endless header",
        "headers",
        "endless headers",
        "path",
        "endless path",
        "query",
        "nonsense",
    ],
)
async def test_heads_have_limits_while_they_are_read(
    head: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with gateway() as started, peer(started) as large:
        large.send(head)
        answer = await large.ended()
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert sum(started.gateway.connections.rejected.values()) == 1
    (line,) = refusals(caplog)
    assert f"\r\nx-request-id: {line['x_request_id']}\r\n".encode() in answer
    assert (line["http_status"], line["peer"], line["levelname"]) == (status, "127.0.0.1", "INFO")
    assert line["err_id"] == ("ERR-PYOCO-0002" if status == 400 else None)
    assert bool(line["exc_info"]) == (status == 400)


def refusals(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [vars(record) for record in caplog.records if record.name == connections.__name__]


async def test_a_websocket_handshake_has_the_same_limits() -> None:
    upgrade = b"GET /jobs/x/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    upgrade += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    async with gateway(http_header_timeout_sec=0.3) as started:
        async with peer(started) as large:
            large.send(upgrade + b"X: " + b"x" * 70_000 + b"\r\n\r\n")
            assert await large.status() == 431
        async with peer(started) as slow:
            slow.send(upgrade)
            assert await slow.status() == 408


@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"Content-Length: 5\r\n\r\nhello", 400),
        (b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"X: " + b"x" * 9_000 + b"\r\n\r\n", 431),
        (b"", 414),
    ],
    ids=["body", "chunked body", "long header", "long path"],
)
async def test_a_handshake_that_the_socket_does_not_take_is_answered_and_closed(
    more: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither uvicorn nor its library of sockets answers it, and no limit of time counts for it any more."""
    caplog.set_level(logging.INFO)
    path = b"/jobs/x/ws" if more else b"/jobs/" + b"x" * 9_000
    upgrade = b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    upgrade += b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    upgrade += b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
    async with gateway() as started, peer(started) as odd:
        odd.send(upgrade + (more or b"\r\n"))
        assert (await odd.ended()).startswith(f"HTTP/1.1 {status} ".encode())
        await until(lambda: started.gateway.connections.open == 0)
        assert sum(started.gateway.connections.rejected.values()) == 1
    assert [line["http_status"] for line in refusals(caplog)] == [status]
    assert [one.getMessage() for one in caplog.records if "sent" in one.getMessage()] == []


async def test_a_handshake_without_a_key_leaves_one_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    upgrade = b"GET /jobs/x/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    async with gateway() as started, peer(started) as odd:
        caplog.clear()
        odd.send(upgrade + b"Sec-WebSocket-Version: 13\r\n\r\n")
        assert (await odd.ended()).startswith(b"HTTP/1.1 400 ")
        lines = [one for one in caplog.records if one.name.startswith(("uvicorn", "pyoco_server.http_api"))]
    (line,) = map(vars, lines)
    assert (line["name"], line["http_status"], line["err_id"]) == (
        connections.__name__,
        400,
        "ERR-PYOCO-0002",
    )


async def test_heads_below_the_limits_are_served_also_in_pieces_and_pipelined() -> None:
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 60_000 + b"\r\n\r\n"
    body = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 200000\r\n\r\n" + b" " * 200_000
    async with gateway() as started, peer(started) as good:
        for _ in range(3):
            good.send(head[:30_000])
            await asyncio.sleep(0.01)
            good.send(head[30_000:])
            assert await good.status() == 200
            await good.reader.readuntil(b'{"status":"ok"}')
        good.send(body + head + REQUEST)
        assert await good.status() == 405
        for _ in range(2):
            await good.reader.readuntil(b'{"status":"ok"}')
        assert not started.gateway.connections.rejected


# As `curl --http2` sends it.
WISH = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n"


async def test_a_wish_for_another_protocol_is_ignored_and_what_follows_it_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A line of the log for each would be a flood without a key."""
    asked = REQUEST.removesuffix(b"\r\n") + WISH
    async with gateway() as started, peer(started) as good:
        for count in (2, 100):
            good.send(asked * count + REQUEST)
            async with asyncio.timeout(SOON_SEC):
                for _ in range(count + 1):
                    await good.reader.readuntil(b'{"status":"ok"}')
        assert not started.gateway.connections.rejected
    warnings = [one for one in caplog.records if one.levelno >= logging.WARNING]
    assert [one for one in warnings if one.name.startswith("uvicorn")] == []


@pytest.mark.parametrize("length", [b"Content-Length: 41", b"Transfer-Encoding: chunked"])
async def test_what_is_sent_behind_a_wish_for_another_protocol_is_no_request(length: bytes) -> None:
    """The parser takes no body there. A proxy does, and would let pass what stands in it."""
    assert len(REQUEST) == 41
    async with gateway() as started, peer(started) as sly:
        sly.send(b"POST /health HTTP/1.1\r\nHost: localhost\r\n" + length + b"\r\n" + WISH)
        await asyncio.sleep(0.1)
        sly.send(REQUEST)
        answer = await sly.ended()
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert started.gateway.connections.rejected["malformed"] == 1


async def test_connections_beyond_the_limit_are_answered_503_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with gateway(http_connections_max=4) as started, contextlib.AsyncExitStack() as held:
        kept = [await held.enter_async_context(peer(started)) for _ in range(4)]
        await until(lambda: started.gateway.connections.open == 4)
        for _ in range(3):
            async with peer(started) as refused:
                answer = await refused.ended()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: " in answer
        for one in kept:
            one.send(REQUEST)
            assert await one.status() == 200
        assert started.gateway.connections.rejected["connections"] == 3
        assert [(one["http_status"], one["levelname"]) for one in refusals(caplog)] == [(503, "WARNING")] * 3
        kept[0].writer.close()
        await until(lambda: started.gateway.connections.open == 3)
        async with peer(started) as again:
            again.send(REQUEST)
            assert await again.status() == 200


async def test_one_address_cannot_take_all_connections_unless_it_is_a_proxy() -> None:
    config = NatsBackendConfig(
        nats_url=f"nats://127.0.0.1:{free_port()}", start_wait_sec=0, http_connections_per_peer_max=2
    )
    for proxies, status in (("10.0.0.1", 503), ("127.0.0.0/8", 200)):
        async with (
            live(config, wait_ready=False, http=HttpProtocol, forwarded_allow_ips=proxies) as started,
            peer(started),
            peer(started),
            peer(started) as third,
        ):
            third.send(REQUEST)
            assert await third.status() == status


def test_proxies_are_named_as_for_uvicorn() -> None:
    assert is_proxy("10.1.2.3", "*")
    assert is_proxy("10.1.2.3", "127.0.0.1, 10.0.0.0/8")
    assert is_proxy("10.1.2.3", ["10.1.2.3"])
    assert not is_proxy("10.1.2.3", "127.0.0.1")
    assert not is_proxy("", "127.0.0.1")


async def test_streams_sockets_and_long_polls_are_not_cut(nats_server: NatsServer) -> None:
    limits = {"http_header_timeout_sec": 0.3, "http_idle_timeout_sec": 0.3, "http_body_timeout_sec": 0.3}
    async with live(config_on(nats_server, **limits), http=HttpProtocol) as started:
        job = (await started.client.post("/jobs", json={"parameters": {}})).json()["id"]
        loop = asyncio.get_running_loop()

        async def poll() -> float:
            began = loop.time()
            answer = await started.client.get(f"/runs/{job}", params={"wait": 2})
            assert answer.status_code == 200
            return loop.time() - began

        async def stream() -> float:
            began = loop.time()
            async with started.client.stream(
                "GET", f"/runs/{job}/watch", params={"timeout_sec": 2}
            ) as answer:
                assert [piece async for piece in answer.aiter_text()]
            return loop.time() - began

        async with connect(f"ws://127.0.0.1:{started.port}/jobs/{job}/ws") as socket:
            await socket.recv()
            took = await asyncio.gather(poll(), stream())
            assert min(took) > 1.5
            await socket.send('{"type": "ping"}')
            assert "heartbeat" in str(await socket.recv())
            assert started.gateway.connections.open >= 1
        assert not started.gateway.connections.rejected


async def test_a_closed_websocket_is_no_longer_counted(nats_server: NatsServer) -> None:
    async with live(config_on(nats_server), http=HttpProtocol) as started:
        job = (await started.client.post("/jobs", json={"parameters": {}})).json()["id"]
        await until(lambda: started.gateway.connections.open == 1)
        for _ in range(3):
            async with connect(f"ws://127.0.0.1:{started.port}/jobs/{job}/ws") as socket:
                await socket.recv()
                assert started.gateway.connections.open == 2
            await until(lambda: started.gateway.connections.open == 1)


async def test_a_refused_handshake_is_no_error_in_the_log(
    nats_server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with live(config_on(nats_server), http=HttpProtocol) as started:
        caplog.clear()
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {}):
            with pytest.raises(InvalidStatus) as refused:
                async with connect(
                    f"ws://127.0.0.1:{started.port}/jobs/{'a' * 32}/ws", additional_headers=headers
                ):
                    pass
            assert refused.value.response.status_code == (403 if headers else 404)
        server_side = [one for one in caplog.records if one.name != "websockets.client"]
        assert [one.getMessage() for one in server_side if one.levelno >= logging.ERROR or one.exc_info] == []
        # Ours are bounded for each caller, so that no one fills the log without a key; uvicorn's are not.
        lines = [(one.name, one.getMessage()) for one in server_side if one.levelno >= logging.INFO]
        assert [name for name, _ in lines] == [refusal_log.__name__] * 3, lines


async def test_pipelined_requests_wait_outside_of_memory_and_all_are_answered() -> None:
    """Short requests: a quarter of a megabyte of them would become thousands at once."""
    count = 20_000
    waiting = 0
    async with gateway() as started, peer(started) as eager:

        async def watch() -> None:
            nonlocal waiting
            while True:
                for protocol in tuple(started.gateway.connections._swept):
                    assert isinstance(protocol, HttpProtocol)
                    waiting = max(waiting, len(protocol.pipeline))
                await asyncio.sleep(0)

        watching = asyncio.ensure_future(watch())
        eager.send(REQUEST * count)
        async with asyncio.timeout(SOON_SEC * 6):
            for _ in range(count):
                await eager.reader.readuntil(b'{"status":"ok"}')
        watching.cancel()
        assert 0 < waiting <= PIPELINED_MAX
        assert not started.gateway.connections.rejected


async def test_requests_behind_a_body_cannot_be_more_than_the_limit() -> None:
    """What follows a body is parsed in larger slices: the rest is not worth waiting for."""
    body = b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n"
    async with gateway() as started, peer(started) as eager:
        eager.send(body)
        await until(lambda: any(one._phase == BODY for one in started.gateway.connections._swept))  # type: ignore[attr-defined]
        eager.send(b"x" + b"GET /health HTTP/1.1\r\n\r\n" * 20_000)
        await eager.ended()
        assert started.gateway.connections.rejected["pipelined"] == 1


@pytest.mark.parametrize("trailers", [b"A: b\r\n" * 40_000, b"A: " + b"b" * 200_000])
async def test_trailers_are_limited_like_headers(trailers: bytes) -> None:
    head = b"POST /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    async with gateway() as started, peer(started) as large:
        large.send(head)
        await until(lambda: any(one._phase == BODY for one in started.gateway.connections._swept))  # type: ignore[attr-defined]
        large.send(trailers)
        await large.ended()
        assert started.gateway.connections.rejected["headers"] == 1


async def test_a_trailer_is_no_header() -> None:
    """Nothing in front of the gateway would have looked at it."""
    request = (
        b"GET /runs HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: other\r\n\r\n"
    )
    async with gateway() as started, peer(started) as sly:
        sly.send(request)
        assert await sly.status() == 503  # 400 if there were two Host headers


@pytest.mark.parametrize("behind", [b"", b"GET ", b"POST /health HTTP/1.1\r\nContent-Length: 9\r\n\r\n"])
async def test_a_client_that_reads_nothing_is_ended_whatever_it_has_sent_behind(behind: bytes) -> None:
    request = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with gateway(http_send_timeout_sec=0.3) as started:
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            deaf.setblocking(False)
            await asyncio.get_running_loop().sock_connect(deaf, ("127.0.0.1", started.port))
            await asyncio.get_running_loop().sock_sendall(deaf, request * 60 + behind)
            await until(
                lambda: started.gateway.connections.rejected["send_timeout"] == 1, within_sec=SOON_SEC
            )
        await until(lambda: started.gateway.connections.open == 0)


async def test_a_socket_cannot_begin_while_an_answer_is_under_way(nats_server: NatsServer) -> None:
    upgrade = b"GET /jobs/x/ws HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    upgrade += b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    stream = b"GET /stream?topic=runs HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with live(config_on(nats_server), http=HttpProtocol) as started, peer(started) as both:
        both.send(stream)
        await both.reader.readuntil(b"retry: ")
        both.send(upgrade)
        await both.ended()
        await until(lambda: len(started.gateway.streams) == 0)
