"""The credentials of the embedded broker: a user and a password, in a file that only its owner can read.

Created once per data folder. Commands read the file, so the password is in no process list.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import NamedTuple

from pyoco_server.broker.small_files import read_json, write_atomically

FILE_NAME = "broker.credentials.json"
USER = "pyoco"
PASSWORD_BYTES = 32


class BrokerCredentials(NamedTuple):
    user: str
    password: str


def ensure_credentials(folder: Path, given: BrokerCredentials | None) -> BrokerCredentials:
    """Those given, else those of the folder, else new ones; stored there. The caller holds its lock."""
    kept = kept_credentials(folder)
    credentials = given or kept or BrokerCredentials(USER, secrets.token_urlsafe(PASSWORD_BYTES))
    write_atomically(folder / FILE_NAME, json.dumps(credentials._asdict()) + "\n", private=True)
    return credentials


def kept_credentials(folder: Path) -> BrokerCredentials | None:
    content = read_json(folder / FILE_NAME)
    user, password = content.get("user"), content.get("password")
    return BrokerCredentials(user, password) if isinstance(user, str) and isinstance(password, str) else None
