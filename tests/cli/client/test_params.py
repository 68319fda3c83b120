"""How parameters are typed, and which of them win."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyoco_server.cli.client.params import merged_params
from pyoco_server.cli.entry import WrongArguments


def test_the_later_ones_win(tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"a": 1, "b": 1, "c": 1}')
    assert merged_params(file, '{"b": 2, "c": 2}', ["c=3", "d=3", "d=4"]) == {"a": 1, "b": 2, "c": 3, "d": 4}


def test_values_are_json_if_they_are_and_text_otherwise() -> None:
    pairs = ["n=1", "f=1.5", "t=true", "z=null", 'o={"k": [1]}', "s=you", "e=", "eq=a=b", 'q="1"', "nan=NaN"]
    assert merged_params(None, None, pairs) == {
        "n": 1,
        "f": 1.5,
        "t": True,
        "z": None,
        "o": {"k": [1]},
        "s": "you",
        "e": "",
        "eq": "a=b",
        "q": "1",
        "nan": "NaN",
    }


def test_a_file_may_be_yaml(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("name: you\nnumbers: [1, 2]\n")
    assert merged_params(file, None, None) == {"name": "you", "numbers": [1, 2]}


@pytest.mark.parametrize(
    "content", ["- 1\n", "plain", "", "1: x\n", "a: [\n", "!!python/object:os.system {}"]
)
def test_a_file_without_an_object_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "params.yaml"
    file.write_text(content)
    with pytest.raises(WrongArguments):
        merged_params(file, None, None)


def test_nothing_given_is_no_parameters() -> None:
    assert merged_params(None, None, None) == {}


def test_a_file_that_is_neither_json_nor_yaml_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("a: 1\nb: [2\n")
    with pytest.raises(WrongArguments) as refused:
        merged_params(file, None, None)
    assert "\n" not in refused.value.message
    assert "(line 3, column 1: expected ',' or ']', but got '<stream end>')" in refused.value.message
