"""How whoever reads news hears that there may be some: a call without words; it comes and takes them."""

from collections.abc import Callable

Notify = Callable[[], None]


def noop() -> None:
    """Rings where nobody listens."""
