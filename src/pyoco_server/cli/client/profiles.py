"""Profiles of `pyoco-client`: the addresses and keys of gateways, in a file of the user. Owns that file.

Only the user can read it: the file has mode 0600, its folder 0700.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec
import typer

from pyoco_server.cli.entry import WrongArguments

FOLDER = "pyoco"
FILE_NAME = "client.json"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SET_EXAMPLE = "pyoco-client config set prod --server https://pyoco.example.org"
LIST_EXAMPLE = "pyoco-client config list"


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    server: str
    api_key: str | None = None
    api_key_header: str | None = None


class Profiles(msgspec.Struct, frozen=True, omit_defaults=True):
    """`current`: the profile of commands that name none."""

    profiles: dict[str, Profile] = {}
    current: str | None = None

    def named(self, name: str, source: str) -> Profile:
        """`source`: where the name was given, for the message."""
        if name not in self.profiles:
            known = ", ".join(sorted(self.profiles)) or "none"
            message = f"{source} names the profile {name!r}, which does not exist. Profiles: {known}."
            raise WrongArguments(message, hint=SET_EXAMPLE)
        return self.profiles[name]

    def with_profile(self, name: str, profile: Profile) -> Profiles:
        return Profiles(self.profiles | {name: profile}, self.current or name)

    def without(self, name: str) -> Profiles:
        kept = {other: profile for other, profile in self.profiles.items() if other != name}
        return Profiles(kept, None if self.current == name else self.current)


def profiles_file() -> Path:
    """In the folder for settings of the user: $XDG_CONFIG_HOME, else ~/.config."""
    return Path(typer.get_app_dir(FOLDER)) / FILE_NAME


def read_profiles() -> Profiles:
    file = profiles_file()
    try:
        return msgspec.json.decode(file.read_bytes(), type=Profiles)
    except FileNotFoundError:
        return Profiles()
    except (OSError, msgspec.DecodeError) as error:
        message = f"The profiles in {file} cannot be read: {error}. Correct the file, or remove it."
        raise WrongArguments(message, hint=SET_EXAMPLE) from error


def write_profiles(profiles: Profiles) -> Path:
    """Replaces the file in one step: readers see the old profiles or the new ones."""
    file = profiles_file()
    draft = file.with_name(f"{file.name}.{os.getpid()}.tmp")
    written = msgspec.json.format(msgspec.json.encode(profiles), indent=2) + b"\n"
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.parent.chmod(0o700)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(written)
        draft.replace(file)
    except OSError as error:
        message = f"The profiles in {file} cannot be written: {error}."
        raise WrongArguments(message, hint=LIST_EXAMPLE) from error
    return file


def checked_profile_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        message = f"A profile cannot be named {name!r}: use letters, digits, '.', '_' and '-', 64 at most."
        raise WrongArguments(message, hint=SET_EXAMPLE)
    return name
