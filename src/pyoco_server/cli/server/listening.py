"""The gateway's socket: opened before anything starts, so that a busy port is found at once."""

from __future__ import annotations

import errno
import ipaddress
import socket
from dataclasses import dataclass

from pyoco_server.cli.entry import CliRefusal
from pyoco_server.config import NatsBackendConfig

BACKLOG = 2048


@dataclass(frozen=True, slots=True)
class Listening:
    sock: socket.socket
    host: str

    @property
    def port(self) -> int:
        port: int = self.sock.getsockname()[1]
        return port

    @property
    def reachable_host(self) -> str:
        """The address for clients on this machine. Loopback, if the gateway listens on every address."""
        try:
            anywhere = ipaddress.ip_address(self.host).is_unspecified
        except ValueError:
            return self.host
        return ("::1" if ":" in self.host else "127.0.0.1") if anywhere else self.host

    @property
    def url(self) -> str:
        host = self.reachable_host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def bound(self) -> str:
        """The bound address, such as `0.0.0.0:8000`, with the port that the kernel chose."""
        host: str = self.sock.getsockname()[0]
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"

    @property
    def is_everywhere(self) -> bool:
        return self.reachable_host != self.host

    def close(self) -> None:
        self.sock.close()


def check_reach(config: NatsBackendConfig) -> None:
    """Refuse to serve other machines without authentication: every caller could run code."""
    if config.auth_methods or config.allow_unauthenticated:
        return
    host = config.http_host.strip("[]")
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return  # `listen` reports what is wrong with it
    if all(ipaddress.ip_address(str(place[0]).partition("%")[0]).is_loopback for *_, place in found):
        return
    raise CliRefusal(
        f"{host} can be reached from other machines, and authentication is off: everything that reaches the "
        "gateway could run code on its workers. Set PYOCO_HTTP_AUTH_MODE=api_key, or allow it with "
        "--allow-unauthenticated (PYOCO_ALLOW_UNAUTHENTICATED=1).",
        hint=f"PYOCO_HTTP_AUTH_MODE=api_key pyoco-server up --host {host}",
    )


def listen(host: str, port: int) -> Listening:
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return Listening(socket.create_server((host, port), family=family, backlog=BACKLOG), host)
    except OSError as error:
        raise _refusal(host, port, error) from error


def _refusal(host: str, port: int, error: OSError) -> CliRefusal:
    if error.errno == errno.EADDRINUSE:
        return CliRefusal(
            f"Port {port} on {host} is in use: stop the program that has it, or choose another port.",
            hint=f"pyoco-server up --port {port + 1 if port < 65535 else 8000}",
        )
    if error.errno == errno.EACCES:
        return CliRefusal(f"Port {port} needs more rights than we have.", hint="pyoco-server up --port 8000")
    return CliRefusal(
        f"Cannot listen on {host} port {port} ({error}).", hint="pyoco-server up --host 127.0.0.1"
    )
