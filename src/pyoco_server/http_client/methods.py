"""A method of a client that a function describes: its name, signature and text, for readers of the class."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable


class DescribedMethod:
    """`drops_first`: the first argument of the function is the id of the handle."""

    def __init__(self, describe: Callable[..., object], *, drops_first: bool = False) -> None:
        self.described = describe
        self.drops_first = drops_first
        self.name = describe.__name__
        self.__doc__ = describe.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def on_class(self, owner: type) -> Callable[..., object]:
        """What `PyocoHttpClient.get_run` is: a function whose first argument is the client."""

        @functools.wraps(self.described)
        def method(client: object, *args: object, **kwargs: object) -> object:
            return getattr(client, self.name)(*args, **kwargs)

        method.__name__, method.__qualname__ = self.name, f"{owner.__qualname__}.{self.name}"
        vars(method)["__signature__"] = self.signature()
        return method

    def signature(self) -> inspect.Signature:
        described = inspect.signature(self.described)
        parameters = list(described.parameters.values())[1 if self.drops_first else 0 :]
        first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return described.replace(parameters=[first, *parameters])
