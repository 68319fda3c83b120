"""Profile pyoco-cj1: the vectors of the contract, and what holds for every value."""

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyoco_server.canonical_json import DEPTH_MAX, CanonicalJsonError, canonical_bytes, digest, parse

RECHECK = (
    '{"strategies":["strat.meanrev.m1"],"window":{"lookback_days":14},"reason":"manual","dry_run":true,'
    '"params":{"recalc_metrics":["sharpe"]}}'
)
RECHECK_DIGEST = "e6a9d01ae7e32f731ef7e59a99c6762de67f939c7d6859694edae62e06146601"

VECTORS = [
    (RECHECK, RECHECK_DIGEST),
    (RECHECK.replace("14", "14.0"), RECHECK_DIGEST),
    (RECHECK.replace('"reason"', '"trace_id":"t-1","reason"'), RECHECK_DIGEST),
    (RECHECK.replace('"reason"', '"idempotency_key":"k","reason"'), RECHECK_DIGEST),
    (json.dumps(dict(reversed(json.loads(RECHECK).items())), indent=2), RECHECK_DIGEST),
    (
        '{"strategies":["a","b"],"reason":"x"}',
        "ee81cff8b486a28a05c985bf76ecc57041a61991dbadb3bbb1ff4cf9e4bb80cd",
    ),
    (
        '{"strategies":["b","a"],"reason":"x"}',
        "be228fa9a6e9af3ef0b598fc15f5c6a4a35f928a1d7e11e44ac5193e92abaad5",
    ),
    (
        '{"reason":"\u304c","strategies":["a"]}',
        "d5e66068d6f0dc62c5dae38b5d7ac8dcc5381a2204ee793eb5916ad93ef08653",
    ),
    (
        '{"reason":"\u304b\u3099","strategies":["a"]}',
        "d5e66068d6f0dc62c5dae38b5d7ac8dcc5381a2204ee793eb5916ad93ef08653",
    ),
    ("{}", "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"),
    ('{"a":0.1,"b":1e3,"c":-0.0}', "5eb4b69619c5ae1c91a769d0b2bcdfd29dc91e8a5237c0f3fff0a46619393019"),
]


@pytest.mark.parametrize(("body", "expected"), VECTORS)
def test_the_digest_is_the_one_of_the_contract(body: str, expected: str) -> None:
    assert digest(body.encode()) == f"sha256:{expected}"
    assert digest(json.loads(body)) == f"sha256:{expected}"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (14.0, "14"),
        (-0.0, "0"),
        (2.0**53 - 1, "9007199254740991"),
        (2.0**53, "9007199254740992.0"),
        (-(2.0**53), "-9007199254740992.0"),
        (1e16, "1e+16"),
        (1e22, "1e+22"),
        (0.1, "0.1"),
        (1e-7, "1e-07"),
        (2**53, "9007199254740992"),
        (10**30, "1" + "0" * 30),
        (True, "true"),
        (None, "null"),
        ('é\u2028\n"\\', '"é\u2028\\n\\"\\\\"'),
        ([3, 1, 2], "[3,1,2]"),
        ((1, (2,)), "[1,[2]]"),
        ({"b": 1, "a": {"d": 1, "c": 2}}, '{"a":{"c":2,"d":1},"b":1}'),
        ({"\U0001f600": 1, "\uffee": 2}, '{"\uffee":2,"\U0001f600":1}'),
    ],
)
def test_a_value_is_written_in_one_way(value: Any, written: str) -> None:
    assert canonical_bytes(value) == written.encode()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"a":1,"a":1}', '"a" occurs twice'),
        (b'{"x":[{"a":1,"b":2,"a":3}]}', '"a" occurs twice'),
        ('{"\u304c":1,"\u304b\u3099":2}'.encode(), "twice after normalisation"),
        (b"[NaN]", "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b'{"a":[0,1e999]}', r'\$\."a"\[1\] is not a finite number'),
        (b'"\xff"', "not UTF-8 at byte 1"),
        (b'{"a":"\\ud800"}', r'\$\."a" has half of a surrogate pair'),
        (b'{"\\udc00":1}', "half of a surrogate pair"),
        (b"\xef\xbb\xbf{}", "line 1, column 1"),
        (b"", "line 1, column 1"),
        (b"{} {}", "column 4"),
        (b"{'a':1}", "line 1, column 2"),
        (b'"a\nb"', "control character"),
        (b"1" * 1001, "1001 digits"),
    ],
)
def test_bytes_without_a_canonical_form_are_refused_with_the_place(raw: bytes, says: str) -> None:
    with pytest.raises(CanonicalJsonError, match=says):
        parse(raw)
    with pytest.raises(CanonicalJsonError):
        digest(raw)


def test_a_refused_member_is_refused_even_where_it_is_not_digested() -> None:
    with pytest.raises(CanonicalJsonError):
        digest(b'{"trace_id":"\\ud800"}')


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {1: 2},
        {"a": {3}},
        object(),
        b"x",
        pytest.param(10**5000, id="huge"),
        pytest.param("\ud800", id="half"),
    ],
)
def test_values_that_json_cannot_say_are_refused(value: Any) -> None:
    with pytest.raises(CanonicalJsonError):
        canonical_bytes(value)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [DEPTH_MAX + 1, 5_000, 100_000])
def test_deep_nesting_is_refused_by_name_and_not_by_recursion(opening: str, depth: int) -> None:
    closing = "]" if opening == "[" else "}"
    with pytest.raises(CanonicalJsonError, match=f"nested deeper than {DEPTH_MAX}"):
        parse((opening * depth + "1" + closing * depth).encode())


def test_the_deepest_nesting_allowed_is_taken() -> None:
    raw = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    assert canonical_bytes(parse(raw)) == raw


def test_a_value_that_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(CanonicalJsonError, match="nested deeper"):
        canonical_bytes(circle)


def test_parsing_gives_back_what_was_written_not_its_canonical_form() -> None:
    assert parse('{"b":"\u304b\u3099","a":14.0}'.encode()) == {"b": "\u304b\u3099", "a": 14.0}


def test_only_members_at_top_level_are_excluded() -> None:
    assert digest({"a": {"trace_id": 1}}) != digest({"a": {}})
    assert digest({"a": 1, "x": 2}, exclude=("x",)) == digest({"a": 1})
    assert digest({"trace_id": 1}, exclude=()) != digest({})


# Any text but half surrogates; keys must not collide after normalisation, or the value is refused.
texts = st.text(st.characters(codec="utf-8"), max_size=8)
keys = texts.map(lambda key: unicodedata.normalize("NFC", key))
numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_the_canonical_form_of_the_canonical_form_is_itself(value: Any) -> None:
    once = canonical_bytes(value)
    assert canonical_bytes(parse(once)) == once


@given(st.dictionaries(keys, values, max_size=6), st.randoms())
def test_the_order_of_members_does_not_matter(value: dict[str, Any], random: Any) -> None:
    members = list(value.items())
    random.shuffle(members)
    assert digest(dict(members)) == digest(value)


@given(values)
def test_white_space_and_escapes_do_not_matter(value: Any) -> None:
    assert digest(json.dumps(value, indent=3, ensure_ascii=True).encode()) == digest(value)


@given(texts)
def test_composed_and_decomposed_text_are_the_same(text: str) -> None:
    assert digest([unicodedata.normalize("NFD", text)]) == digest([unicodedata.normalize("NFC", text)])


@given(st.integers(-(2**53) + 1, 2**53 - 1))
def test_an_integral_float_is_the_integer(number: int) -> None:
    assert canonical_bytes(float(number)) == canonical_bytes(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_keeps_its_value(number: float) -> None:
    assert json.loads(canonical_bytes(number)) == number


@given(st.binary(max_size=40))
def test_any_bytes_are_parsed_or_refused_but_never_break_us(raw: bytes) -> None:
    try:
        digest(raw)
    except CanonicalJsonError as refused:
        assert str(refused)  # noqa: PT017 - either ending is right
