"""Where a request came in: names, ports and paths, as text. Decides nothing."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.types import Scope


def host_name(place: str) -> str:
    """Without its port; empty for what is no host at all."""
    try:
        return (urlsplit(f"//{place}").hostname or "").lower()
    except ValueError:
        return ""


def is_loopback(name: str) -> bool:
    """An address of this machine alone, by number or by name; a socket in the file system is one too."""
    if name.lower() == "localhost" or name.startswith("/"):
        return True
    try:
        return ipaddress.ip_address(name.strip("[]")).is_loopback
    except ValueError:
        return False


def path_of(scope: Scope) -> str:
    """As the router sees it: below the path that a proxy was told to put before ours."""
    path: str = scope["path"]
    root: str = scope.get("root_path", "")
    return path[len(root) :] if root and path.startswith(f"{root}/") else path
