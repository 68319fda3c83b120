"""Which gateway and which key a command uses: the rule, by values."""

from __future__ import annotations

import pytest

from pyoco_server.cli.client.connection import (
    SERVER_DEFAULT,
    GivenConnection,
    KnownProfile,
    Sourced,
    decide_connection,
)

FLAG = Sourced("http://flag", "from --server", is_flag=True)
VARIABLE = Sourced("http://variable", "from PYOCO_SERVER")
KEY_FLAG = Sourced("flag-key", "from --api-key", is_flag=True)
KEY_VARIABLE = Sourced("variable-key", "from PYOCO_API_KEY")
PROFILE = KnownProfile("prod", "http://profile", "profile-key")
NAMED = KnownProfile("prod", "http://profile", "profile-key", is_flag=True)


@pytest.mark.parametrize(
    ("server", "profile", "expected", "source"),
    [
        (None, None, SERVER_DEFAULT, "the default"),
        (None, PROFILE, "http://profile", "of profile prod"),
        (VARIABLE, None, "http://variable", "from PYOCO_SERVER"),
        (VARIABLE, PROFILE, "http://variable", "from PYOCO_SERVER"),
        (VARIABLE, NAMED, "http://profile", "of profile prod"),
        (FLAG, PROFILE, "http://flag", "from --server"),
        (FLAG, NAMED, "http://flag", "from --server"),
    ],
)
def test_the_server_comes_from_a_flag_the_environment_a_profile_or_the_default(
    server: Sourced | None, profile: KnownProfile | None, expected: str, source: str
) -> None:
    chosen = decide_connection(GivenConnection(server=server), profile)
    assert (chosen.server, chosen.server_source) == (expected, source)


@pytest.mark.parametrize(
    ("key", "profile", "expected"),
    [
        (None, None, None),
        (None, PROFILE, "profile-key"),
        (KEY_VARIABLE, None, "variable-key"),
        (KEY_VARIABLE, PROFILE, "variable-key"),
        (KEY_VARIABLE, NAMED, "profile-key"),
        (KEY_FLAG, NAMED, "flag-key"),
    ],
)
def test_the_key_has_the_same_order(
    key: Sourced | None, profile: KnownProfile | None, expected: str | None
) -> None:
    assert decide_connection(GivenConnection(api_key=key), profile).api_key == expected


@pytest.mark.parametrize("profile", [PROFILE, NAMED])
def test_the_key_of_a_profile_is_for_its_server_only(profile: KnownProfile) -> None:
    elsewhere = decide_connection(GivenConnection(server=FLAG), profile)
    assert elsewhere.api_key is None
    assert "that of profile prod is for http://profile only" in elsewhere.key_source
    same = Sourced("http://Profile/", "from --server", is_flag=True)
    assert decide_connection(GivenConnection(server=same), profile).api_key == "profile-key"
    other = decide_connection(GivenConnection(server=FLAG, api_key=KEY_VARIABLE), profile)
    assert other.api_key == "variable-key"


def test_the_header_of_a_profile_gives_way_to_a_flag() -> None:
    profile = KnownProfile("prod", "http://profile", "key", "X-Other")
    assert decide_connection(GivenConnection(), profile).api_key_header == "X-Other"
    assert decide_connection(GivenConnection(api_key_header="X-Flag"), profile).api_key_header == "X-Flag"
    assert decide_connection(GivenConnection(), PROFILE).api_key_header == "X-API-Key"
