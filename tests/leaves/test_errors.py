"""The error tree: ids, defaults and what survives a process boundary."""

import pickle

import pytest

from pyoco_server import errors


@pytest.mark.parametrize(
    ("kind", "err_id", "msg_id"),
    [
        (errors.Invalid, "ERR-PYOCO-0002", "MSG-PYOCO-0002"),
        (errors.ConfigError, "ERR-PYOCO-0002", "MSG-PYOCO-0002"),
        (errors.NotFound, "ERR-PYOCO-0005", "MSG-PYOCO-0005"),
        (errors.Unavailable, "ERR-PYOCO-0003", "MSG-PYOCO-0003"),
        (errors.Unauthenticated, "ERR-PYOCO-0014", "MSG-PYOCO-0014"),
        (errors.Forbidden, "ERR-PYOCO-0015", "MSG-PYOCO-0015"),
        (errors.TooLarge, None, None),
        (errors.Conflict, None, None),
        (errors.Limited, None, None),
        (errors.Internal, None, None),
    ],
)
def test_an_error_has_the_ids_of_its_class(
    kind: type[errors.PyocoError], err_id: str | None, msg_id: str | None
) -> None:
    error = kind("Do this.")
    assert (error.err_id, error.msg_id, error.message, str(error)) == (err_id, msg_id, "Do this.", "Do this.")


def test_the_message_id_follows_a_given_error_id() -> None:
    assert errors.NotFound("Check the name.", err_id="ERR-PYOCO-0020").msg_id == "MSG-PYOCO-0020"


def test_a_given_message_id_wins() -> None:
    error = errors.Invalid(
        "Send JSON.", err_id="ERR-PYOCO-0002", msg_id="MSG-PYOCO-0017", details=[{"loc": ["a"]}]
    )
    assert (error.msg_id, error.details) == ("MSG-PYOCO-0017", [{"loc": ["a"]}])


@pytest.mark.parametrize(
    "error",
    [
        errors.Invalid("a", err_id="ERR-PYOCO-0019", details=[{"loc": ["a"]}]),
        errors.Limited("b", retry_after_sec=3.5),
        errors.Unavailable("c", retry_after_sec=2),
    ],
)
def test_an_error_crosses_a_process_boundary_whole(error: errors.PyocoError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
