"""One stream without a leader, for every client of a test: nothing that it is asked is answered."""

from __future__ import annotations

import re

from pyoco_server.config import NatsBackendConfig
from pyoco_server.store.resources import streams
from tests.faults.faulty_client import Fault, Faults

FOR_EVER = 10**9


def stream_names(config: NatsBackendConfig) -> dict[str, str]:
    """By a short name that does not depend on the configuration."""
    return {_short(wanted["name"]): str(wanted["name"]) for wanted in streams(config)}


def kill(faults: Faults, config: NatsBackendConfig, short_name: str) -> None:
    name = stream_names(config)[short_name]
    subjects = next(wanted["subjects"] for wanted in streams(config) if wanted["name"] == name)
    published = "|".join(re.escape(re.sub(r"\.[*>]$", ".", subject)) for subject in subjects or ())
    asked = rf"\$JS\.API\..*\.{re.escape(name)}(\.|$)"
    faults.add(re.compile(rf"^({published})|^{asked}"), Fault.LOSE_REQUEST, times=FOR_EVER)


def _short(name: str) -> str:
    return re.sub(r"^((KV|OBJ)_)?[^_]+_", "", name).lower()
