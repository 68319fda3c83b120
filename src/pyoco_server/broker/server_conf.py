"""The configuration file of the embedded nats-server, as text. Decides its content; does not write it."""

import ipaddress
import json
from pathlib import Path
from typing import Literal

from pyoco_server.broker.credentials import BrokerCredentials

Durability = Literal["always", "interval"]

# A power cut loses at most this much with `interval`; a killed process loses nothing in either mode.
# Writes cost the same at 100 ms as at 1 s, and about four times as much with `always`.
SYNC_INTERVAL = "100ms"
MAX_PAYLOAD = "1MB"

_SYNC: dict[Durability, str] = {"always": "always", "interval": f'"{SYNC_INTERVAL}"'}


def server_conf(
    *,
    server_name: str,
    host: str,
    port: int,
    store_dir: Path,
    durability: Durability,
    credentials: BrokerCredentials | None = None,
    store_bytes_max: int | None = None,
) -> str:
    """`store_bytes_max`: without it the server takes three quarters of what is free when it starts.

    At that limit it refuses every write, also of erasures, so a quarter of the disk would be unusable.
    """
    limit = "" if store_bytes_max is None else f"\n  max_file_store: {store_bytes_max}"
    return f"""\
# Written by pyoco-server at every start: edits are lost.
server_name: {_quoted(server_name)}
listen: {_quoted(address(host, port))}
max_payload: {MAX_PAYLOAD}
jetstream {{
  store_dir: {_quoted(str(store_dir))}
  sync_interval: {_SYNC[durability]}{limit}
}}
{_authorization(credentials)}"""


def address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def require_loopback(host: str) -> None:
    """Traffic is not encrypted and the password is optional, so only this machine may connect."""
    if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
        raise ValueError(
            f"The embedded broker listens on loopback only, not on {host}: run a nats-server yourself."
        )


def _authorization(credentials: BrokerCredentials | None) -> str:
    if credentials is None:
        return ""
    user, password = _quoted(credentials.user), _quoted(credentials.password)
    return f"authorization {{ user: {user}, password: {password} }}\n"


def _quoted(text: str) -> str:
    # JSON's quoting of quotes and backslashes is also nats-server's.
    return json.dumps(text, ensure_ascii=False)
