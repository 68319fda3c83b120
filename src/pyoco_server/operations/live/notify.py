"""How a subscriber learns that there may be changes: a call without arguments. It then reads them."""

from collections.abc import Callable

Notify = Callable[[], None]


def noop() -> None:
    """For places without a subscriber."""
