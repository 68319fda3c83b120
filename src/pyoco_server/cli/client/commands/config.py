"""`pyoco-client config`: profiles, so that neither an address nor a key is typed with each command."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from pyoco_server.cli.client.options import OutputOption
from pyoco_server.cli.client.output import show_items, show_outcome
from pyoco_server.cli.client.profiles import (
    SET_EXAMPLE,
    Profile,
    Profiles,
    checked_profile_name,
    profiles_file,
    read_profiles,
    write_profiles,
)
from pyoco_server.cli.client.tables import Column, text
from pyoco_server.cli.entry import WrongArguments

KEY_CHARS_MAX = 8_192
USE_EXAMPLE = "pyoco-client config use prod"
COLUMNS = (
    Column("PROFILE", text("name")),
    Column("SERVER", text("server"), is_cut=True),
    Column("KEY", text("has_key")),
    Column("CURRENT", text("current")),
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.")]


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where `config set` reads a key: never from an argument, which other users of the machine can see."""

    file: Path | None
    is_removed: bool


def set_(
    name: NameArgument,
    server: Annotated[
        str | None, typer.Option(help="Address of the gateway. Needed for a new profile.")
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="Read the API key from this file; - is stdin. [default: ask on a terminal]"),
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="Store no key, and remove a stored one.")] = False,
    api_key_header: Annotated[
        str | None, typer.Option(help="Header that carries the API key. [default: X-API-Key]")
    ] = None,
    output: OutputOption = None,
) -> None:
    """Create a profile, or change it. The first profile becomes the current one."""
    stored = read_profiles()
    changed = _changed(stored.profiles.get(checked_profile_name(name)), server, api_key_header)
    if key_file is not None and no_key:
        raise WrongArguments("Give --key-file or --no-key, not both.", hint=SET_EXAMPLE)
    key = _key(KeySource(key_file, no_key), changed.api_key)
    profiles = stored.with_profile(name, Profile(changed.server, key, changed.api_key_header))
    file = write_profiles(profiles)
    is_current = profiles.current == name
    answer = {"name": name, "server": changed.server, "has_key": key is not None, "current": is_current}
    words = [f"Profile {name}: {changed.server}, {'with' if key else 'without'} a key, in {file}."]
    words.append("It is the current profile." if is_current else f"To use it: pyoco-client config use {name}")
    show_outcome(answer, words, output)


def list_(output: OutputOption = None) -> None:
    """List the profiles. Keys are not shown."""
    stored = read_profiles()
    items = [
        {
            "name": name,
            "server": profile.server,
            "has_key": profile.api_key is not None,
            "current": name == stored.current,
        }
        for name, profile in sorted(stored.profiles.items())
    ]
    show_items(items, COLUMNS, output, empty=f"No profiles. Create one: {SET_EXAMPLE}")


def use(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of the profile.")] = None,
    none: Annotated[bool, typer.Option("--none", help="Use no profile.")] = False,
    output: OutputOption = None,
) -> None:
    """Make a profile the current one, for commands that name none."""
    if (name is None) is not none:
        raise WrongArguments("Name one profile, or give --none.", hint=USE_EXAMPLE)
    stored = read_profiles()
    if name is not None:
        stored.named(name, "The command")
    write_profiles(Profiles(stored.profiles, name))
    words = f"The current profile is {name}." if name else "No profile is the current one."
    show_outcome({"current": name}, [words], output)


def remove(name: NameArgument, output: OutputOption = None) -> None:
    """Remove a profile with its key."""
    stored = read_profiles()
    stored.named(name, "The command")
    write_profiles(stored.without(name))
    show_outcome({"name": name, "removed": True}, [f"Profile {name} was removed."], output)


def path() -> None:
    """Print the path of the file with the profiles."""
    sys.stdout.write(f"{profiles_file()}\n")


def _changed(old: Profile | None, server: str | None, header: str | None) -> Profile:
    """Without its key if the address changed: a key is for one server."""
    if old is None and server is None:
        raise WrongArguments("A new profile needs --server.", hint=SET_EXAMPLE)
    if server is not None and not server.startswith(("http://", "https://")):
        message = f"--server {server!r} is no address: it begins with http:// or https://."
        raise WrongArguments(message, hint=SET_EXAMPLE)
    if old is None or (server is not None and server != old.server):
        return Profile(server or "", None, header or (old.api_key_header if old else None))
    return Profile(old.server, old.api_key, header or old.api_key_header)


def _key(source: KeySource, kept: str | None) -> str | None:
    if source.is_removed:
        return None
    if source.file is not None:
        return _checked_key(_read_key(source.file))
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return kept
    hint = "empty: keep the stored one" if kept else "empty: none"
    typed: str = typer.prompt(f"API key ({hint})", default="", hide_input=True, show_default=False)
    return _checked_key(typed) if typed else kept


def _read_key(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.readline(KEY_CHARS_MAX)
    try:
        with file.open(encoding="utf-8") as stream:
            return stream.read(KEY_CHARS_MAX)
    except (OSError, UnicodeDecodeError) as error:
        raise WrongArguments(f"--key-file {file} cannot be read: {error}", hint=SET_EXAMPLE) from error


def _checked_key(text: str) -> str:
    key = text.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        message = "The key must be one word of printable ASCII characters."
        raise WrongArguments(message, hint=f"{SET_EXAMPLE} --key-file key.txt")
    return key
