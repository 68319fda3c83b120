"""Which ids of callers are carried along, and which are not."""

import pytest

from pyoco_server.tracing import is_correlation_id, usable_traceparent

GOOD = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_traceparent_is_carried_in_the_form_of_version_00() -> None:
    assert usable_traceparent(GOOD) == GOOD
    assert usable_traceparent("cc" + GOOD[2:] + "-what-is-to-come") == GOOD


@pytest.mark.parametrize(
    "wrong",
    [
        None,
        "",
        "00",
        GOOD.upper(),
        "ff" + GOOD[2:],
        GOOD + "-more",
        GOOD + "\r\nX-Injected: 1",
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
        "cc" + GOOD[2:] + "-" + "x" * 600,
    ],
)
def test_what_w3c_says_to_ignore_is_ignored(wrong: str | None) -> None:
    assert usable_traceparent(wrong) is None


def test_a_correlation_id_is_printable_and_of_bounded_length() -> None:
    assert is_correlation_id("order 17")
    assert is_correlation_id("x" * 256)
    for wrong in ("", "x" * 257, "a\nb", "a\x1bb", "a\x85b", "a\u2028b"):
        assert not is_correlation_id(wrong)
