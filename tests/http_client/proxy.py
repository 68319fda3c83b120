"""A proxy between a client and a gateway that drops answers and cuts streams, as told by the test."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

# What to do with an answer: its bytes so far, to the bytes that the client gets before the connection is cut.
# None: everything goes through.
Cut = Callable[[bytes, bytes], int | None]
CHUNK_BYTES = 65536


class Proxy:
    """One request per connection. `cut(request, answer)` decides after each piece of the answer."""

    def __init__(self, target: tuple[str, int], cut: Cut) -> None:
        self._target, self._cut = target, cut
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests: list[bytes] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self._target) as gateway, suppress(OSError):
            request = _read_request(client).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1)
            self.requests.append(request)
            gateway.sendall(request)
            self._relay(request, client, gateway)

    def _relay(self, request: bytes, client: socket.socket, gateway: socket.socket) -> None:
        answer, sent = b"", 0
        while piece := gateway.recv(CHUNK_BYTES):
            answer += piece
            allowed = self._cut(request, answer)
            if allowed is not None:
                client.sendall(answer[sent:allowed])
                return
            client.sendall(piece)
            sent = len(answer)


@contextmanager
def proxy_to(url: str, cut: Cut) -> Iterator[Proxy]:
    host, _, port = url.removeprefix("http://").partition(":")
    proxy = Proxy((host, int(port)), cut)
    try:
        yield proxy
    finally:
        proxy.close()


def _read_request(client: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        if not (piece := client.recv(CHUNK_BYTES)):
            return data
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [
        line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    ]
    while len(body) < int(lengths[0] if lengths else 0):
        body += client.recv(CHUNK_BYTES)
    return head + b"\r\n\r\n" + body
