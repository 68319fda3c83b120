"""Keys by value: what may be one, where it leads, and what of a request is compared."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pyoco_server.errors import Invalid
from pyoco_server.operations.idempotency.key_scope import IdempotencyKey, checked_key, owner_of
from pyoco_server.operations.idempotency.request_digest import differing, digest_of

KEY = IdempotencyKey(tenant="t", principal="p", method="POST", path="/runs", key="secret-key")
PARTS = st.one_of(st.none(), st.text(max_size=5))
BODIES = st.dictionaries(st.text("ab", min_size=1, max_size=2), st.integers(0, 2), max_size=4)


@given(st.tuples(PARTS, PARTS, st.text(max_size=5)), st.tuples(PARTS, PARTS, st.text(max_size=5)))
def test_owners_differ_when_anything_of_them_does(
    one: tuple[str | None, str | None, str], two: tuple[str | None, str | None, str]
) -> None:
    assert (owner_of(*one) == owner_of(*two)) == (one == two)


def test_an_address_is_two_hashes_and_shows_nothing_of_the_key() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}\.[0-9a-f]{64}", KEY.address)
    assert "secret" not in repr(KEY) + str(KEY) + KEY.hashed
    assert replace(KEY, path="/runs/1").address.split(".")[0] == KEY.address.split(".")[0]


@pytest.mark.parametrize("key", ["12345678", "x" * 64, "a b", "!~"])
def test_what_fits_is_taken_as_it_is(key: str) -> None:
    assert checked_key([key], name="K") == key


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([], "K is required."),
        (["a", "b"], "K was sent 2 times; send it once."),
        (["1234567"], "K has 7 characters; send 8 to 64"),
        (["x" * 65], "K has 65 characters; send 8 to 64"),
        (["1234567é"], "ASCII only"),
        (["1234567\n"], "ASCII only"),
        ([" 12345678"], "none of them a blank at its ends"),
    ],
)
def test_a_face_may_ask_for_more(values: list[str], words: str) -> None:
    with pytest.raises(Invalid) as refused:
        checked_key(values, name="K", least=8, most=64)
    assert words in refused.value.message
    assert all(value not in refused.value.message for value in values if len(value) > 1)


async def test_digests_are_those_of_canonical_json() -> None:
    taken = await digest_of(b'{"strategies":["a","b"],"reason":"x","trace_id":"t"}')
    assert taken.digest == "sha256:ee81cff8b486a28a05c985bf76ecc57041a61991dbadb3bbb1ff4cf9e4bb80cd"
    assert set(taken.members) == {"strategies", "reason"}
    assert (await digest_of({"strategies": ["a", "b"], "reason": "x"})) == taken


async def test_the_same_name_written_in_two_ways_is_the_same_member() -> None:
    one = await digest_of('{"\u304c":1,"x":1}'.encode())
    two = await digest_of('{"\u304b\u3099":1,"x":2}'.encode())
    assert differing(one.members, two.members) == ["x"]


async def test_a_large_body_is_read_all_the_same() -> None:
    large = b'{"a":"' + b"x" * 100_000 + b'"}'
    assert (await digest_of(large)) == (await digest_of({"a": "x" * 100_000}))


@given(BODIES, BODIES)
async def test_digests_are_equal_exactly_when_no_member_differs(
    one: dict[str, int], two: dict[str, int]
) -> None:
    first, second = await digest_of(one), await digest_of(two)
    changed = [name for name in sorted(one.keys() | two.keys()) if one.get(name) != two.get(name)]
    assert differing(first.members, second.members) == changed
    assert (first.digest == second.digest) == (not changed)
