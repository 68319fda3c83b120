"""Names, ports and paths of requests, as text. Decides nothing."""

from __future__ import annotations

import ipaddress
import re

from starlette.types import Scope

# A name or an address, and a port. No `@` and no `\`: parsers disagree about their meaning.
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?)\]|([A-Za-z0-9._-]+))(?::[0-9]{0,5})?")
# First steps of paths whose face authenticates its callers and limits bodies itself.
SELF_AUTHENTICATING = frozenset({"pdca", "gui"})
# Served without a caller and without a broker.
PUBLIC = frozenset({"/", "/health", "/ready", "/docs", "/openapi.json", "/openapi.yaml", "/static"})
PUBLIC_BELOW = "/static/"


def host_name(place: str) -> str:
    """Without its port; empty if the text is no host."""
    found = _PLACE.fullmatch(place)
    return (found[1] or found[2]).lower() if found else ""


def is_loopback(name: str) -> bool:
    """A loopback address or name, or the path of a Unix socket."""
    if name.lower() == "localhost" or name.startswith("/"):
        return True
    try:
        address = ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)  # IPv4 on a dual-stack socket
    return (mapped or address).is_loopback


def path_of(scope: Scope) -> str:
    """As the router sees it: without the prefix of a proxy (`root_path`)."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def first_step(path: str) -> str:
    return path[1:].partition("/")[0]


def is_public(path: str) -> bool:
    return path in PUBLIC or path.startswith(PUBLIC_BELOW)
