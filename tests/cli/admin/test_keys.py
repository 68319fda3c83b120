"""`pyoco-server-admin api-key …`: upstream's flags and answers, and what is new beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyoco_server.auth import verify_api_key
from pyoco_server.config import NatsBackendConfig, as_written, default_of, field_names, variable_of
from pyoco_server.store.store import Store
from tests.cli.programs import Program, Programs, clean_environment
from tests.conftest import free_port
from tests.keyring import id_of, record_of, secret_of

PEPPER = "a pepper of the tests"


@pytest.fixture
def config(config: NatsBackendConfig) -> NatsBackendConfig:
    return NatsBackendConfig(**dict(vars(config)) | {"auth_pepper": PEPPER})


@pytest.fixture
def programs(tmp_path: Path, config: NatsBackendConfig) -> Programs:
    changed = {name for name in field_names() if getattr(config, name) != default_of(name)}
    settings = {variable_of(name): as_written(getattr(config, name)) for name in changed}
    return Programs(tmp_path, clean_environment(**settings))


def api_key(programs: Programs, *arguments: object) -> Program:
    return programs.run("pyoco-server-admin", "api-key", *arguments)


def answer(program: Program) -> Any:
    assert program.ended() == 0, program.errors
    (line,) = program.output.splitlines()
    return json.loads(line)


async def test_a_key_from_its_making_to_its_end(programs: Programs, store: Store) -> None:
    made = answer(api_key(programs, "create", "--tenant", "acme"))
    assert list(made) == [
        "key_id", "tenant_id", "api_key", "created_at", "name", "scopes", "expires_at",
        "previous_secret_until",
    ]  # fmt: skip
    key = made["api_key"]
    assert (made["key_id"], made["tenant_id"]) == (id_of(key), "acme")
    assert verify_api_key(key, record=await record_of(store, key), pepper=PEPPER)
    (listed,) = answer(api_key(programs, "list"))
    assert list(listed) == [
        "key_id", "tenant_id", "created_at", "revoked_at", "name", "scopes", "expires_at",
        "previous_secret_until",
    ]  # fmt: skip
    assert (listed["key_id"], listed["revoked_at"]) == (made["key_id"], None)
    assert secret_of(key) not in json.dumps(listed)
    revoked = answer(api_key(programs, "revoke", "--key-id", made["key_id"]))
    assert list(revoked) == ["key_id", "revoked_at"]
    assert (await record_of(store, key)).revoked_at == revoked["revoked_at"]
    assert answer(api_key(programs, "list"))[0]["revoked_at"] == revoked["revoked_at"]


async def test_a_key_with_a_name_scopes_and_an_end(programs: Programs, store: Store) -> None:
    wishes = ["--name", "ci", "--scope", "runs:read", "--scope", "runs:write", "--expires-in", "30d"]
    made = answer(api_key(programs, "create", "--tenant", "acme", *wishes))
    record = await record_of(store, made["api_key"])
    assert (record.name, record.scopes) == ("ci", ("runs:read", "runs:write"))
    assert record.expires_at == made["expires_at"] == record.created_at + 30 * 86_400


async def test_a_rotated_key_has_two_secrets_for_the_grace(programs: Programs, store: Store) -> None:
    first = answer(api_key(programs, "create", "--tenant", "acme"))["api_key"]
    turned = answer(api_key(programs, "rotate", "--key-id", id_of(first), "--grace", "90m"))
    record = await record_of(store, first)
    assert id_of(turned["api_key"]) == id_of(first)
    for key in (first, turned["api_key"]):
        assert verify_api_key(key, record=record, pepper=PEPPER)
    assert record.previous is not None
    assert turned["previous_secret_until"] == record.previous.valid_until
    answer(api_key(programs, "revoke", "--key-id", id_of(first)))
    refused = api_key(programs, "rotate", "--key-id", id_of(first))
    assert (refused.ended(), "revoked" in refused.errors) == (1, True)


def test_the_broker_may_be_named_before_the_command_as_scripts_do(
    programs: Programs, config: NatsBackendConfig
) -> None:
    nowhere = {"PYOCO_NATS_URL": f"nats://127.0.0.1:{free_port()}"}
    made = programs.run(
        "python", "-m", "pyoco_server.admin_cli", "--nats-url", config.nats_url,
        "api-key", "create", "--tenant", "acme", **nowhere,
    )  # fmt: skip
    assert answer(made)["tenant_id"] == "acme"
    listed = programs.run(
        "pyoco-server-admin",
        "--nats-url",
        "nats://127.0.0.1:1",
        "api-key",
        "list",
        "--nats-url",
        config.nats_url,
    )
    assert len(answer(listed)) == 1


def test_an_unknown_key_is_answered_as_scripts_know_it(programs: Programs) -> None:
    for command in ("revoke", "rotate"):
        refused = api_key(programs, command, "--key-id", "nothing-here")
        assert refused.ended() == 2
        assert json.loads(refused.output) == {"error": "not_found", "key_id": "nothing-here"}
        assert "try:   pyoco-server-admin api-key list" in refused.errors


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["create"], "--tenant"),
        (["create", "--tenant", "no tenant"], "letters, digits"),
        (["create", "--tenant", "acme", "--scope", "all"], "There are runs:read"),
        (["create", "--tenant", "acme", "--expires-in", "soon"], "--expires-in 30d"),
        (["create", "--tenant", "acme", "--name", ""], "name"),
        (["revoke"], "--key-id"),
        (["rotate", "--key-id", "x", "--grace", "-1"], "--grace"),
    ],
)
def test_what_cannot_be_is_refused_with_what_to_type(
    programs: Programs, arguments: list[str], words: str
) -> None:
    refused = api_key(programs, *arguments)
    assert (refused.ended(), refused.output) == (1, "")
    assert words in refused.errors
    assert "try:   " in refused.errors
    assert "ERR-PYOCO-0018" in refused.errors
