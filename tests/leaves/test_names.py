"""Names that become part of a subject or a key."""

from typing import Any

import pytest

from pyoco_server.errors import Invalid
from pyoco_server.names import check_routing_tag, check_worker_id


@pytest.mark.parametrize("tag", ["default", "GPU_1", "a-b", "x" * 64, "0"])
def test_a_tag_of_letters_digits_underscores_and_hyphens_is_taken(tag: str) -> None:
    assert check_routing_tag(tag) == tag


@pytest.mark.parametrize("tag", ["", "a.b", "a b", "*", ">", "x" * 65, "日本", "a\n", None, 7, ["a"]])
def test_a_tag_that_is_not_one_token_is_refused(tag: Any) -> None:
    with pytest.raises(Invalid) as refused:
        check_routing_tag(tag)
    assert refused.value.err_id == "ERR-PYOCO-0002"


@pytest.mark.parametrize("worker_id", ["w1", "host.example.com-42", "A_b", "x" * 128])
def test_a_worker_id_that_can_be_a_key_is_taken(worker_id: str) -> None:
    assert check_worker_id(worker_id) == worker_id


@pytest.mark.parametrize("worker_id", ["", ".a", "a.", "a..b", "a b", "a/b", "x" * 129, "a\n", None])
def test_a_worker_id_that_cannot_be_a_key_is_refused(worker_id: Any) -> None:
    with pytest.raises(Invalid):
        check_worker_id(worker_id)


@pytest.mark.parametrize(
    ("worker_id", "advice"),
    [
        ("a b", "remove or replace ' '"),
        ("a..b", "dots"),
        ("x" * 200, "shorten it"),
        ("", "at least one character"),
        (5, "write a string instead of a int"),
    ],
)
def test_the_refusal_says_what_to_change(worker_id: Any, advice: str) -> None:
    with pytest.raises(Invalid, match=advice):
        check_worker_id(worker_id)
