"""How whoever reads news hears that there may be some: a call without words; it comes and takes them."""

from collections.abc import Callable

Ring = Callable[[], None]


def nobody() -> None:
    """Rings where nobody listens."""
