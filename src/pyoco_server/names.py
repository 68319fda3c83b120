"""The rules for names: those that become part of a subject or a key (routing tags, run ids, worker ids), and
the tags that people give to runs.

Owns the patterns and the messages of refusals.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from pyoco_server.errors import Invalid
from pyoco_server.printable import has_control

# One token of the subject `pyoco.work.<tag>`: a dot would make it two.
ROUTING_TAG_PATTERN = r"^[A-Za-z0-9_-]{1,64}$"
ROUTING_TAG_CHARS_MAX = 64
# A key of a JetStream bucket: dots separate tokens, and no token may be empty.
WORKER_ID_PATTERN = r"^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$"
WORKER_ID_CHARS_MAX = 128

# Tags of runs: any script, slashes and spaces inside.
TAGS_MAX = 32
TAG_CHARS_MAX = 64
# Before normalization, with spaces around it and combining accents.
TAG_WRITTEN_CHARS_MAX = 1_024

_routing_tag = re.compile(ROUTING_TAG_PATTERN)
_worker_id = re.compile(WORKER_ID_PATTERN)


def check_routing_tag(value: object, member: str = "tag") -> str:
    """The tag if it can route runs, else Invalid. `member`: where it was given."""
    if isinstance(value, str) and _routing_tag.fullmatch(value):
        return value
    raise Invalid(
        f"The tag must be 1 to {ROUTING_TAG_CHARS_MAX} letters, digits, '_' or '-': {_what_is_wrong(value)}.",
        details=[{"loc": [member], "msg": f"must match {ROUTING_TAG_PATTERN}", "type": "routing_tag"}],
    )


def as_tag(text: str) -> str:
    """The normalized tag. A text that is too long for a tag is returned unchanged."""
    if len(text) > TAG_WRITTEN_CHARS_MAX:
        return text  # the time of normalization may grow with the square of the length
    return unicodedata.normalize("NFC", text).strip()


def check_tag(text: str, member: str = "tag") -> str:
    """The tag as it is stored, else Invalid. `member`: where it was given."""
    tag = as_tag(text)
    if not 1 <= len(tag) <= TAG_CHARS_MAX or has_control(tag):
        message = f"A tag has 1 to {TAG_CHARS_MAX} characters, and no control characters among them."
        raise Invalid.at([member], message)
    return tag


def check_tags(texts: Iterable[str]) -> list[str]:
    """Without duplicates, in order, else Invalid."""
    tags = list(dict.fromkeys(check_tag(text, "tags") for text in texts))
    if len(tags) > TAGS_MAX:
        message = f"A run has at most {TAGS_MAX} tags."
        raise Invalid.at(["tags"], message)
    return tags


def is_run_id(value: object) -> bool:
    """The gateway creates UUIDs; other producers may use any token of a subject."""
    return isinstance(value, str) and bool(_routing_tag.fullmatch(value))


def check_run_id(value: object) -> str:
    if is_run_id(value):
        return str(value)
    raise Invalid(
        f"The run id must be 1 to {ROUTING_TAG_CHARS_MAX} letters, digits, '_' or '-' (a UUID): "
        f"{_what_is_wrong(value)}.",
        details=[{"loc": ["run_id"], "msg": f"must match {ROUTING_TAG_PATTERN}", "type": "run_id"}],
    )


def check_worker_id(value: object) -> str:
    """The worker id if it can be a key of the registry, else Invalid."""
    if isinstance(value, str) and len(value) <= WORKER_ID_CHARS_MAX and _worker_id.fullmatch(value):
        return value
    raise Invalid(
        f"The worker id must be 1 to {WORKER_ID_CHARS_MAX} letters, digits, '_', '-' or single dots "
        f"inside: {_what_is_wrong(value)}.",
        details=[{"loc": ["worker_id"], "msg": f"must match {WORKER_ID_PATTERN}", "type": "worker_id"}],
    )


def _what_is_wrong(value: object) -> str:
    """What to change, without repeating the value."""
    if not isinstance(value, str):
        return f"write a string instead of a {type(value).__name__}"
    if not value:
        return "it is empty, write at least one character"
    strange = sorted(set(re.sub(r"[A-Za-z0-9_.-]", "", value)))
    if strange:
        return f"remove or replace {', '.join(repr(c) for c in strange[:5])}"
    if "." in value:
        return "remove or replace the dots that are not allowed"
    return "shorten it"
