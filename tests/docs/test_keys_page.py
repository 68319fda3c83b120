"""The commands of docs/operations/keys.md, in their order, against a real `up` that asks for keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyoco_server.http_api.middleware.addresses import PUBLIC
from pyoco_server.operations.identity.callers import Scope
from tests.docs.test_examples import blocks, typed, up


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start, manage, ask = blocks("docs/operations/keys.md", "sh")
    monkeypatch.setenv("PYOCO_HTTP_AUTH_MODE", start.split()[0].partition("=")[2])
    create, listing, scopes, rotate, revoke = (f"{line} --data-dir data" for line in manage.splitlines())
    with up(tmp_path) as port:
        made = json.loads(typed(create, port, tmp_path).stdout)
        assert [key["key_id"] for key in json.loads(typed(listing, port, tmp_path).stdout)] == [
            made["key_id"]
        ]
        changed = json.loads(typed(scopes.replace("KEY_ID", made["key_id"]), port, tmp_path).stdout)
        assert (made["scopes"], changed["scopes"]) == (None, ["admin"])
        turned = json.loads(typed(rotate.replace("KEY_ID", made["key_id"]), port, tmp_path).stdout)
        for key in (made["api_key"], turned["api_key"]):
            assert json.loads(typed(ask.replace("$KEY", key), port, tmp_path).stdout) == []
        typed(revoke.replace("KEY_ID", made["key_id"]), port, tmp_path)
        refused = json.loads(typed(ask.replace("$KEY", made["api_key"]), port, tmp_path).stdout)
        assert refused["err_id"] == "ERR-PYOCO-0015"


def test_every_scope_stands_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations" / "keys.md").read_text()
    assert [scope for scope in Scope if f"| `{scope}` |" not in page] == []


def test_every_address_that_needs_no_key_stands_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operations" / "keys.md").read_text()
    listed = page.partition("Everything but ")[2].partition(" then needs a key")[0]
    assert set(listed.split("`")[1::2]) == PUBLIC
