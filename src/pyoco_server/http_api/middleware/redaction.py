"""Removes API keys and JWTs from text before it is logged."""

from __future__ import annotations

import re

from pyoco_server.api_keys import KEY_PREFIX

HIDDEN = "hidden"
# Names of modules and buckets have the prefix of a key too: `pyoco_server.errors`, `pyoco_runs.<run id>`.
# Names of modules are shorter than a secret; a run id has its own format.
_RUN_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_SECRET = rf"(?!{_RUN_ID}(?![A-Za-z0-9_-]))[A-Za-z0-9_-]{{16,}}"
_API_KEY = re.compile(rf"{KEY_PREFIX}([A-Za-z0-9_-]{{1,64}})\.{_SECRET}")
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")


def without_secrets(text: str) -> str:
    """The id of a key stays: it shows which key to revoke."""
    if KEY_PREFIX in text:
        text = _API_KEY.sub(rf"{KEY_PREFIX}\1.{HIDDEN}", text)
    return _JWT.sub(HIDDEN, text) if "eyJ" in text else text
