"""Which gateway a command uses, with which key: flags, then the environment, then a profile, then defaults.

Decides, and remembers for messages where each value came from. A profile that is named with --profile counts
as a flag. The key of a profile is sent to the server of that profile only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import typer

SERVER_DEFAULT = "http://127.0.0.1:8000"
HEADER_DEFAULT = "X-API-Key"
SERVER_VARIABLE, KEY_VARIABLE, PROFILE_VARIABLE = "PYOCO_SERVER", "PYOCO_API_KEY", "PYOCO_PROFILE"
FLAGS = {"server": "--server", "api_key": "--api-key", "profile": "--profile"}
VARIABLES = {"server": SERVER_VARIABLE, "api_key": KEY_VARIABLE, "profile": PROFILE_VARIABLE}


class Sourced(NamedTuple):
    """A value, and where it was given, as shown to people."""

    value: str
    source: str
    is_flag: bool = False


@dataclass(frozen=True, slots=True)
class GivenConnection:
    """The options before the command. They are evaluated when the command connects."""

    server: Sourced | None = None
    api_key: Sourced | None = None
    api_key_header: str | None = None
    profile: Sourced | None = None


@dataclass(frozen=True, slots=True)
class KnownProfile:
    name: str
    server: str
    api_key: str | None = None
    api_key_header: str | None = None
    is_flag: bool = False


@dataclass(frozen=True, slots=True)
class Connection:
    server: str
    server_source: str
    api_key: str | None = None
    key_source: str = ""
    api_key_header: str = HEADER_DEFAULT

    @property
    def where(self) -> str:
        """The address with its source, for messages."""
        return f"{self.server} ({self.server_source})"


def given_connection(
    ctx: typer.Context,
    server: str | None,
    api_key: str | None,
    api_key_header: str | None,
    profile: str | None,
) -> GivenConnection:
    return GivenConnection(
        _sourced(ctx, "server", server),
        _sourced(ctx, "api_key", api_key),
        api_key_header,
        _sourced(ctx, "profile", profile),
    )


def chosen_connection(given: GivenConnection) -> Connection:
    """Reads the file with profiles, unless flags or the environment name everything."""
    if given.profile is None and given.server is not None and given.api_key is not None:
        return decide_connection(given, None)
    return decide_connection(given, _profile(given.profile))


def decide_connection(given: GivenConnection, profile: KnownProfile | None) -> Connection:
    server = given.server
    if profile is not None and not (server and (server.is_flag or not profile.is_flag)):
        server = Sourced(profile.server, f"of profile {profile.name}")
    if server is None:
        server = Sourced(SERVER_DEFAULT, "the default")
    key, note = _key(given, profile, server.value)
    header = given.api_key_header or (profile.api_key_header if profile else None) or HEADER_DEFAULT
    return Connection(server.value, server.source, key, note, header)


def _key(given: GivenConnection, profile: KnownProfile | None, server: str) -> tuple[str | None, str]:
    key = given.api_key
    has_key = profile is not None and profile.api_key is not None
    if profile is None or not has_key or (key and (key.is_flag or not profile.is_flag)):
        return (key.value, f"The key came {key.source}.") if key else (None, "No key was sent.")
    if _address(server) == _address(profile.server):
        return profile.api_key, f"The key is that of profile {profile.name}."
    if key is not None:
        return key.value, f"The key came {key.source}."
    return None, f"No key was sent: that of profile {profile.name} is for {profile.server} only."


def _address(server: str) -> str:
    return server.rstrip("/").lower()


def _profile(given: Sourced | None) -> KnownProfile | None:
    from pyoco_server.cli.client.profiles import read_profiles

    stored = read_profiles()
    name = given.value if given else stored.current
    if not name:
        return None
    found = stored.named(name, given.source.removeprefix("from ") if given else "client.json")
    is_flag = given is not None and given.is_flag
    return KnownProfile(name, found.server, found.api_key, found.api_key_header, is_flag)


def _sourced(ctx: typer.Context, name: str, value: str | None) -> Sourced | None:
    if not value:
        return None
    source = ctx.get_parameter_source(name)
    is_flag = source is not None and source.name == "COMMANDLINE"
    return Sourced(value, f"from {(FLAGS if is_flag else VARIABLES)[name]}", is_flag)
