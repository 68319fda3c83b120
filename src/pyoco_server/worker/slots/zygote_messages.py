"""The messages between a worker and its zygote: one packet each, on a socket that keeps packets apart."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

PACKET_BYTES_MAX = 64 * 1024


class _Packet(msgspec.Struct, frozen=True, kw_only=True, tag=True, array_like=True):
    pass


# To the zygote


class Prepare(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """The first message. `path`: first on the import path; `loads_flows`: once here, not in each slot."""

    spec: str
    parallelism: int
    path: str
    loads_flows: bool


class Fork(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """Make a slot. Three descriptors come with it: its link, its stdout and its stderr."""

    number: int


class Release(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """The worker no longer uses the id of this process, which has ended."""

    pid: int


ToZygote = Prepare | Fork | Release


# From the zygote


class Prepared(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """`unsafe`: why slots may not be forked from what was loaded. Then the zygote is of no use."""

    unsafe: str | None = None


class NotLoaded(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """The resolver cannot be loaded."""

    error: str


class Forked(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    number: int
    pid: int


class NotForked(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """The kernel refused."""

    number: int
    errno: int
    error: str


class Exited(_Packet, frozen=True, kw_only=True, tag=True, array_like=True):
    """`code`: negative for a signal, None if the flows' own code has taken it."""

    pid: int
    code: int | None


FromZygote = Prepared | NotLoaded | Forked | NotForked | Exited

encode = msgspec.msgpack.Encoder().encode
decode_to_zygote: Callable[[bytes], ToZygote] = msgspec.msgpack.Decoder(ToZygote).decode
decode_from_zygote: Callable[[bytes], FromZygote] = msgspec.msgpack.Decoder(FromZygote).decode
