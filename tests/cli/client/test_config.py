"""`pyoco-client config`, and commands that use the environment or a profile, against an `up` with keys."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from tests.cli.conftest import starter
from tests.cli.programs import BIN, Program, Programs, Up, clean_environment, wait_for
from tests.cli.terminal import terminal
from tests.conftest import free_port


class Secured(NamedTuple):
    up: Up
    key: str


@pytest.fixture(scope="module")
def secured(shared_programs: Programs) -> Secured:
    up = starter(shared_programs)("--no-worker", PYOCO_HTTP_AUTH_MODE="api_key")
    made = shared_programs.run(
        "pyoco-server-admin", "api-key", "create", "--tenant", "demo", "--data-dir", up.data_dir
    )
    key = str(json.loads(made.output)["api_key"])
    wait_for(lambda: httpx.get(f"{up.url}/runs", headers={"X-API-Key": key}).status_code == 200)
    return Secured(up, key)


@pytest.fixture
def key_file(tmp_path: Path, secured: Secured) -> Path:
    file = tmp_path / "key.txt"
    file.write_text(secured.key + "\n")
    return file


def lists(programs: Programs, *options: object, **settings: str) -> Program:
    return programs.run("pyoco-client", *options, "list", **settings)


def test_address_and_key_come_from_the_environment(programs: Programs, secured: Secured) -> None:
    listed = lists(programs, PYOCO_SERVER=secured.up.url, PYOCO_API_KEY=secured.key)
    assert (listed.ended(), json.loads(listed.output)) == (0, [])


def test_address_and_key_come_from_a_profile(programs: Programs, secured: Secured, key_file: Path) -> None:
    made = programs.run(
        "pyoco-client", "config", "set", "prod", "--server", secured.up.url, "--key-file", key_file
    )
    assert json.loads(made.output) == {
        "name": "prod",
        "server": secured.up.url,
        "has_key": True,
        "current": True,
    }
    assert lists(programs).ended() == 0
    programs.run("pyoco-client", "config", "set", "dead", "--server", f"http://127.0.0.1:{free_port()}")
    assert lists(programs).ended() == 0, "the first profile stays the current one"
    away = lists(programs, PYOCO_PROFILE="dead")
    assert (away.ended(), "(of profile dead)" in away.errors) == (1, True)
    assert lists(programs, "--profile", "prod", PYOCO_PROFILE="dead").ended() == 0
    assert programs.run("pyoco-client", "config", "use", "dead").ended() == 0
    assert lists(programs).ended() == 1
    shown = json.loads(programs.run("pyoco-client", "config", "list").output)
    assert [(one["name"], one["has_key"], one["current"]) for one in shown] == [
        ("dead", False, True),
        ("prod", True, False),
    ]
    assert json.loads(programs.run("pyoco-client", "config", "remove", "dead").output)["removed"] is True
    assert programs.run("pyoco-client", "config", "use", "prod").ended() == 0
    assert programs.run("pyoco-client", "config", "use", "--none").ended() == 0
    assert "(the default)" in lists(programs, PYOCO_API_KEY="x").errors


def test_only_the_user_can_read_the_profiles(programs: Programs, secured: Secured, key_file: Path) -> None:
    file = Path(programs.run("pyoco-client", "config", "path").output.strip())
    assert file == programs.folder / "config" / "pyoco" / "client.json"
    file.parent.mkdir(parents=True, mode=0o755)
    file.write_text("{}")
    file.chmod(0o644)
    set_ = ("config", "set", "prod", "--server", secured.up.url, "--key-file", key_file)
    said = programs.run("pyoco-client", *set_)
    assert said.ended() == 0, said.errors
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    shown = said.said + programs.run("pyoco-client", "config", "list").said
    assert secured.key not in shown
    assert secured.key in file.read_text()


def test_the_key_of_a_profile_is_not_sent_to_another_server(
    programs: Programs, secured: Secured, key_file: Path
) -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    programs.run("pyoco-client", "config", "set", "other", "--server", dead, "--key-file", key_file)
    for listed in (lists(programs, "--server", secured.up.url), lists(programs, PYOCO_SERVER=secured.up.url)):
        assert listed.ended() == 1
        assert "HTTP 401" in listed.errors
        assert f"No key was sent: that of profile other is for {dead} only." in listed.errors
    moved = programs.run("pyoco-client", "config", "set", "other", "--server", secured.up.url)
    assert json.loads(moved.output)["has_key"] is False, "another address needs another key"


def test_a_refusal_says_where_the_key_came_from(programs: Programs, secured: Secured) -> None:
    wrong = lists(programs, "--server", secured.up.url, PYOCO_API_KEY="wrong")
    assert (wrong.ended(), "The key came from PYOCO_API_KEY." in wrong.errors) == (1, True)
    assert f"The gateway is {secured.up.url} (from --server)." in wrong.errors
    none = lists(programs, PYOCO_SERVER=secured.up.url)
    assert (none.ended(), "No key was sent." in none.errors) == (1, True)
    assert "--api-key" not in none.errors, "a hint never asks for a key among the arguments"


def test_a_key_is_read_from_stdin(programs: Programs, secured: Secured) -> None:
    environment = clean_environment(XDG_CONFIG_HOME=str(programs.folder / "config"))
    command = [str(BIN / "pyoco-client"), "config", "set", "prod", "--server", secured.up.url]
    subprocess.run(
        [*command, "--key-file", "-"], input=f"{secured.key}\n", text=True, env=environment, check=True
    )
    assert lists(programs).ended() == 0


def test_a_terminal_asks_for_the_key_and_does_not_show_it(programs: Programs, secured: Secured) -> None:
    command = ("pyoco-client", "config", "set", "prod", "--server", secured.up.url)
    with terminal(*command, XDG_CONFIG_HOME=str(programs.folder / "config")) as shown:
        shown.shows("API key (empty: none):")
        shown.hides_input()
        shown.type(secured.key + "\n")
        assert shown.ended() == 0
        assert secured.key not in shown.text
        assert f"Profile prod: {secured.up.url}, with a key" in shown.text
    assert lists(programs).ended() == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("set", "prod"), "A new profile needs --server."),
        (("set", "a b", "--server", "http://x"), "A profile cannot be named"),
        (("set", "prod", "--server", "x"), "begins with http:// or https://"),
        (("set", "prod", "--server", "http://x", "--key-file", "none.txt"), "cannot be read"),
        (("set", "prod", "--server", "http://x", "--key-file", "bad.txt"), "one word"),
        (("set", "prod", "--server", "http://x", "--key-file", "bad.txt", "--no-key"), "not both"),
        (("use", "nothing"), "does not exist. Profiles: none."),
        (("use",), "Name one profile, or give --none."),
        (("remove", "nothing"), "does not exist"),
    ],
)
def test_what_is_wrong_is_said(programs: Programs, arguments: tuple[str, ...], sentence: str) -> None:
    (programs.folder / "bad.txt").write_text("two words\n")
    refused = programs.run("pyoco-client", "config", *arguments)
    assert refused.ended() == 1
    assert sentence in refused.errors
    assert "try:   pyoco-client config" in refused.errors


def test_a_profile_or_a_file_that_is_not_there_is_named(programs: Programs) -> None:
    refused = lists(programs, PYOCO_PROFILE="prod")
    assert (refused.ended(), "PYOCO_PROFILE names the profile 'prod'" in refused.errors) == (1, True)
    file = programs.folder / "config" / "pyoco" / "client.json"
    file.parent.mkdir(parents=True)
    file.write_text("{")
    broken = lists(programs)
    assert (broken.ended(), str(file) in broken.errors) == (1, True)
    assert "Traceback" not in broken.errors
