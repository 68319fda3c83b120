"""How to connect to the broker: the credentials, and the certificates that are trusted."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, TypedDict

from pyoco_server.config import NatsBackendConfig
from pyoco_server.errors import ConfigError

RECONNECT_PAUSE_SEC = 0.1
_ENCRYPTED = ("tls://", "wss://")


class ConnectOptions(TypedDict, total=False):
    reconnect_time_wait: Any  # nats-py declares int, and sleeps for a part of a second too
    user_credentials: str
    user: str
    password: str
    tls: ssl.SSLContext


def connect_options(config: NatsBackendConfig) -> ConnectOptions:
    """Raises ConfigError for files that cannot be read."""
    options: ConnectOptions = {"reconnect_time_wait": RECONNECT_PAUSE_SEC}
    if config.nats_creds_file:
        _check_readable(config.nats_creds_file)
        options["user_credentials"] = config.nats_creds_file
    elif config.nats_user:
        options["user"], options["password"] = config.nats_user, config.nats_password
    if _wants_tls(config):
        options["tls"] = _tls(config)
    return options


def _check_readable(path: str) -> None:
    try:
        with Path(path).open("rb"):
            return
    except OSError as error:
        raise ConfigError(
            f"The credentials for the broker cannot be read ({error}); correct PYOCO_NATS_CREDS_FILE."
        ) from error


def _wants_tls(config: NatsBackendConfig) -> bool:
    files = config.nats_tls_ca_file or config.nats_tls_cert_file
    return bool(files) or any(server.startswith(_ENCRYPTED) for server in config.nats_servers)


def _tls(config: NatsBackendConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.nats_tls_ca_file or None)
        if config.nats_tls_cert_file:
            context.load_cert_chain(config.nats_tls_cert_file, config.nats_tls_key_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"The certificates for the broker cannot be loaded ({error}); "
            "correct PYOCO_NATS_TLS_CA_FILE, PYOCO_NATS_TLS_CERT_FILE and PYOCO_NATS_TLS_KEY_FILE."
        ) from error
    return context
