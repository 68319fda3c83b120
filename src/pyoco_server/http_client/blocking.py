"""Perform scripts with `httpx.Client`: every step blocks. Owns no call."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

import httpx

from pyoco_server.http_client.methods import DescribedMethod
from pyoco_server.http_client.retries import RequestRetryPolicy
from pyoco_server.http_client.script import (
    ApiRequest,
    Emit,
    NextChunk,
    NextLine,
    Open,
    Pause,
    PolicyOf,
    Script,
    Send,
    Step,
    Stream,
    advance,
    arguments_of,
)

P = ParamSpec("P")
T = TypeVar("T")


class BlockingTransport:
    """Performs the steps of one script after the other."""

    def __init__(self, http: httpx.Client, policy: RequestRetryPolicy) -> None:
        self.http = http
        self.policy = policy

    def run(self, script: Script[T]) -> T:
        with _Conversation(self) as conversation:
            try:
                step = next(script)
                while True:
                    step = advance(script, conversation.perform(step))
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                script.close()

    def iterate(self, script: Stream[T]) -> Generator[T, None, None]:
        with _Conversation(self) as conversation:
            try:
                step = next(script)
                while True:
                    if isinstance(step, Emit):
                        yield step.item
                        step = script.send(None)
                    else:
                        step = advance(script, conversation.perform(step))
            except StopIteration:
                return
            finally:
                script.close()


class _Conversation:
    """The stream that a script has open, and what came of its steps."""

    def __init__(self, transport: BlockingTransport) -> None:
        self._http, self._policy = transport.http, transport.policy
        self._open = ExitStack()
        self._lines: Iterator[str] = iter(())
        self._chunks: Iterator[bytes] = iter(())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def perform(self, step: Step) -> object:
        """What came of the step; a broken connection is a value, for `advance`."""
        try:
            return self._perform(step)
        except httpx.TransportError as error:
            return error

    def _perform(self, step: Step) -> Any:
        match step:
            case Send(request):
                return self._http.request(request.method, request.path, **arguments_of(request))
            case Pause(seconds):
                return time.sleep(seconds)
            case Open(request):
                return self._opened(request)
            case NextLine():
                return next(self._lines, None)
            case NextChunk():
                return next(self._chunks, None)
            case PolicyOf():
                return self._policy

    def _opened(self, request: ApiRequest) -> httpx.Response:
        self._open.close()
        stream = self._http.stream(request.method, request.path, **arguments_of(request))
        response = self._open.enter_context(stream)
        if response.is_error:
            response.read()  # the error shows the body
        self._lines, self._chunks = response.iter_lines(), response.iter_bytes()
        return response


class HasTransport(Protocol):
    """A client, or a handle that belongs to one."""

    @property
    def transport(self) -> BlockingTransport: ...


class HasId(HasTransport, Protocol):
    """A handle: its id is the first argument of each of its calls."""

    @property
    def id(self) -> str: ...


class Blocking(DescribedMethod, Generic[P, T]):
    """A method of a client that performs this script and returns its answer."""

    def __init__(self, describe: Callable[P, Script[T]]) -> None:
        super().__init__(describe)
        self.describe = describe

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasTransport, owner: type) -> Callable[P, T]: ...
    def __get__(self, client: HasTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return transport.run(self.describe(*args, **kwargs))

        return call


class BlockingStream(DescribedMethod, Generic[P, T]):
    """A method of a client that returns the items of this script, one by one."""

    def __init__(self, describe: Callable[P, Stream[T]]) -> None:
        super().__init__(describe)
        self.describe = describe

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasTransport, owner: type) -> Callable[P, Generator[T, None, None]]: ...
    def __get__(self, client: HasTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
            return transport.iterate(self.describe(*args, **kwargs))

        return call


class BlockingOf(DescribedMethod, Generic[P, T]):
    """A method of a handle: the script gets the id of the handle first."""

    def __init__(self, describe: Callable[Concatenate[str, P], Script[T]]) -> None:
        super().__init__(describe, drops_first=True)
        self.describe = describe

    @overload
    def __get__(self, handle: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, handle: HasId, owner: type) -> Callable[P, T]: ...
    def __get__(self, handle: HasId | None, owner: type) -> Callable[..., object]:
        if handle is None:
            return self.on_class(owner)
        one = handle

        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return one.transport.run(self.describe(one.id, *args, **kwargs))

        call.__doc__ = self.__doc__
        return call


class BlockingStreamOf(DescribedMethod, Generic[P, T]):
    """A method of a handle that returns items one by one: the script gets the id of the handle first."""

    def __init__(self, describe: Callable[Concatenate[str, P], Stream[T]]) -> None:
        super().__init__(describe, drops_first=True)
        self.describe = describe

    @overload
    def __get__(self, handle: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, handle: HasId, owner: type) -> Callable[P, Generator[T, None, None]]: ...
    def __get__(self, handle: HasId | None, owner: type) -> Callable[..., object]:
        if handle is None:
            return self.on_class(owner)
        one = handle

        def call(*args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
            return one.transport.iterate(self.describe(one.id, *args, **kwargs))

        call.__doc__ = self.__doc__
        return call
