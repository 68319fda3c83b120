"""Generated pages are committed as they are generated: people read them without running us."""

import pytest

from pyoco_server.cli.docs import CONFIGURATION_GROUPS, PAGES
from pyoco_server.cli.error_reference import ADVICE
from pyoco_server.config import field_names, variable_of
from pyoco_server.texts import ENGLISH
from tests.tidy.repository import ROOT


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_is_the_generated_one(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_setting_stands_on_the_configuration_page_once() -> None:
    page = PAGES["docs/reference/configuration.md"]()
    assert [name for name in field_names() if page.count(f"| `{variable_of(name)}` |") != 1] == []


def test_every_error_id_stands_on_the_page_of_errors_with_what_to_do() -> None:
    assert [err_id.replace("ERR-", "MSG-") for err_id in ADVICE] == list(ENGLISH)


def test_every_group_begins_with_a_setting() -> None:
    assert set(CONFIGURATION_GROUPS) <= set(field_names())
    assert field_names()[0] in CONFIGURATION_GROUPS
