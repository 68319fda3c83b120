"""Decide how a server is to be started, and write its configuration file. Starts nothing."""

import contextlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from pyoco_server.broker.credentials import BrokerCredentials
from pyoco_server.broker.data_folder import DataFolder
from pyoco_server.broker.disk import disk_of
from pyoco_server.broker.port import choose_port
from pyoco_server.broker.server_conf import Durability, server_conf
from pyoco_server.broker.small_files import write_atomically

CONF_NAME = "nats-server.conf"
STORE_NAME = "jetstream"


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """How to start this server, the first time and again."""

    binary: Path
    conf: Path
    lock_fd: int
    server_name: str  # unique to this plan, so that another server on the port is not taken for ours
    host: str
    port: int


def prepare(
    binary: Path,
    folder: DataFolder,
    *,
    host: str,
    preferred_port: int,
    durability: Durability,
    credentials: BrokerCredentials | None = None,
) -> ServerPlan:
    plan = ServerPlan(
        binary=binary,
        conf=folder.path / CONF_NAME,
        lock_fd=folder.lock_fd,
        server_name=f"pyoco-{secrets.token_hex(6)}",
        host=host,
        port=choose_port(host, preferred_port),
    )
    disk = disk_of(folder.path)
    conf = server_conf(
        server_name=plan.server_name,
        host=plan.host,
        port=plan.port,
        store_dir=folder.path / STORE_NAME,
        durability=durability,
        credentials=credentials,
        store_bytes_max=None if disk is None else disk.total_bytes,
    )
    write_atomically(plan.conf, conf, private=True)
    _close_to_others(folder.path / STORE_NAME)
    return plan


def _close_to_others(store: Path) -> None:
    """It holds all runs and API keys; the data folder above may have been made by others, and be open."""
    with contextlib.suppress(FileExistsError):  # a file: the server says better what is wrong with it
        store.mkdir(mode=0o700, exist_ok=True)
    found = store.stat()
    if found.st_mode & 0o077 and found.st_uid == os.geteuid():
        store.chmod(0o700)
