"""Opaque tokens: they open for what they were sealed for, and for nothing else."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.cursors import TOKEN_CHARS_MAX, Scope, TokenRefused, seal, unseal

SECRET = b"s" * 32
SCOPE: Scope = {"tenant": "ours", "status": None, "updated_after": 1.5}
TOKEN = seal(SECRET, "runs", SCOPE, [3, 2**53, 0])


def refused(token: str, *, secret: bytes = SECRET, kind: str = "runs", scope: Scope = SCOPE) -> bool:
    try:
        unseal(secret, kind, scope, token)
    except TokenRefused:
        return True
    return False


def test_a_token_opens_for_the_same_question() -> None:
    assert unseal(SECRET, "runs", dict(reversed(list(SCOPE.items()))), TOKEN) == [3, 2**53, 0]
    assert set(TOKEN) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@pytest.mark.parametrize(
    "scope",
    [{}, {**SCOPE, "tenant": "theirs"}, {**SCOPE, "status": "RUNNING"}, {**SCOPE, "more": None}],
)
def test_a_token_of_another_question_is_refused(scope: Scope) -> None:
    assert refused(TOKEN, scope=scope)


def test_a_token_of_another_kind_or_another_environment_is_refused() -> None:
    assert refused(TOKEN, kind="logs")
    assert refused(TOKEN, secret=b"t" * 32)


@pytest.mark.parametrize("place", range(len(TOKEN)))
def test_a_token_changed_anywhere_is_refused(place: int) -> None:
    other = "A" if TOKEN[place] != "A" else "B"
    assert refused(TOKEN[:place] + other + TOKEN[place + 1 :])
    assert refused(TOKEN[:place])


@pytest.mark.parametrize("token", ["", "=", "A", f"{TOKEN}=", f"{TOKEN}==", f" {TOKEN}", f"{TOKEN}\n", "é"])
def test_what_is_no_token_is_refused(token: str) -> None:
    assert refused(token)


def test_only_the_text_we_wrote_stands_for_it() -> None:
    """Base64 has spare bits at the end: several texts decode to the same bytes."""
    token = next(t for t in (seal(SECRET, "k", {}, [n]) for n in range(1000)) if len(t) % 4)
    padded = token + "=" * (-len(token) % 4)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    same = [
        token[:-1] + last
        for last in alphabet
        if base64.urlsafe_b64decode(token[:-1] + last + padded[len(token) :])
        == base64.urlsafe_b64decode(padded)
    ]
    assert len(same) > 1
    assert [text for text in same if not refused(text, kind="k", scope={})] == [token]


def test_a_token_has_a_length_beyond_which_nobody_reads_it() -> None:
    assert refused("A" * (TOKEN_CHARS_MAX + 1))


@given(st.text(max_size=80))
def test_any_text_is_refused_without_a_surprise(text: str) -> None:
    assert refused(text)


@given(st.binary(max_size=80))
def test_any_bytes_are_refused_without_a_surprise(data: bytes) -> None:
    assert refused(base64.urlsafe_b64encode(data).rstrip(b"=").decode())
