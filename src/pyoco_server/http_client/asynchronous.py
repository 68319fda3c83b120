"""Perform scripts with `httpx.AsyncClient`. Owns no call. `blocking.py` does the same with blocking calls."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, overload

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
Awaiting: TypeAlias = Coroutine[object, object, T]


class AsyncTransport:
    """Performs the steps of one script after the other."""

    def __init__(self, http: httpx.AsyncClient, policy: RequestRetryPolicy) -> None:
        self.http = http
        self.policy = policy

    async def run(self, script: Script[T]) -> T:
        async with _Conversation(self) as conversation:
            try:
                step = next(script)
                while True:
                    step = advance(script, await conversation.perform(step))
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                script.close()

    async def iterate(self, script: Stream[T]) -> AsyncGenerator[T, None]:
        async with _Conversation(self) as conversation:
            try:
                step = next(script)
                while True:
                    if isinstance(step, Emit):
                        yield step.item
                        step = script.send(None)
                    else:
                        step = advance(script, await conversation.perform(step))
            except StopIteration:
                return
            finally:
                script.close()


class _Conversation:
    """The stream that a script has open, and what came of its steps."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._http, self._policy = transport.http, transport.policy
        self._open = AsyncExitStack()
        self._lines: AsyncIterator[str] | None = None
        self._chunks: AsyncIterator[bytes] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def perform(self, step: Step) -> object:
        """What came of the step; a broken connection is a value, for `advance`."""
        try:
            return await self._perform(step)
        except httpx.TransportError as error:
            return error

    async def _perform(self, step: Step) -> Any:
        match step:
            case Send(request):
                return await self._http.request(request.method, request.path, **arguments_of(request))
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Open(request):
                return await self._opened(request)
            case NextLine():
                return None if self._lines is None else await anext(self._lines, None)
            case NextChunk():
                return None if self._chunks is None else await anext(self._chunks, None)
            case PolicyOf():
                return self._policy

    async def _opened(self, request: ApiRequest) -> httpx.Response:
        await self._open.aclose()
        stream = self._http.stream(request.method, request.path, **arguments_of(request))
        response = await self._open.enter_async_context(stream)
        if response.is_error:
            await response.aread()  # the error shows the body
        self._lines, self._chunks = response.aiter_lines(), response.aiter_bytes()
        return response


class HasAsyncTransport(Protocol):
    """A client, or a handle that belongs to one."""

    @property
    def transport(self) -> AsyncTransport: ...


class HasAsyncId(HasAsyncTransport, Protocol):
    """A handle: its id is the first argument of each of its calls."""

    @property
    def id(self) -> str: ...


class Awaited(DescribedMethod, Generic[P, T]):
    """A method of a client that performs this script and returns its answer."""

    def __init__(self, describe: Callable[P, Script[T]]) -> None:
        super().__init__(describe)
        self.describe = describe

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasAsyncTransport, owner: type) -> Callable[P, Awaiting[T]]: ...
    def __get__(self, client: HasAsyncTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return await transport.run(self.describe(*args, **kwargs))

        return call


class AwaitedStream(DescribedMethod, Generic[P, T]):
    """A method of a client that returns the items of this script, one by one."""

    def __init__(self, describe: Callable[P, Stream[T]]) -> None:
        super().__init__(describe)
        self.describe = describe

    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, client: HasAsyncTransport, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, client: HasAsyncTransport | None, owner: type) -> Callable[..., object]:
        if client is None:
            return self.on_class(owner)
        transport = client.transport

        @functools.wraps(self.describe)
        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            return transport.iterate(self.describe(*args, **kwargs))

        return call


class AwaitedOf(DescribedMethod, Generic[P, T]):
    """A method of a handle: the script gets the id of the handle first."""

    def __init__(self, describe: Callable[Concatenate[str, P], Script[T]]) -> None:
        super().__init__(describe, drops_first=True)
        self.describe = describe

    @overload
    def __get__(self, handle: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, handle: HasAsyncId, owner: type) -> Callable[P, Awaiting[T]]: ...
    def __get__(self, handle: HasAsyncId | None, owner: type) -> Callable[..., object]:
        if handle is None:
            return self.on_class(owner)
        one = handle

        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return await one.transport.run(self.describe(one.id, *args, **kwargs))

        call.__doc__ = self.__doc__
        return call


class AwaitedStreamOf(DescribedMethod, Generic[P, T]):
    """A method of a handle that returns items one by one: the script gets the id of the handle first."""

    def __init__(self, describe: Callable[Concatenate[str, P], Stream[T]]) -> None:
        super().__init__(describe, drops_first=True)
        self.describe = describe

    @overload
    def __get__(self, handle: None, owner: type) -> Callable[..., object]: ...
    @overload
    def __get__(self, handle: HasAsyncId, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, handle: HasAsyncId | None, owner: type) -> Callable[..., object]:
        if handle is None:
            return self.on_class(owner)
        one = handle

        def call(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
            return one.transport.iterate(self.describe(one.id, *args, **kwargs))

        call.__doc__ = self.__doc__
        return call
