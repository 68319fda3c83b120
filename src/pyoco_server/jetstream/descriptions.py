"""What the broker says about streams, consumers and the account: the members that this product reads."""

from typing import TypedDict

import msgspec


class Republish(TypedDict, total=False):
    src: str
    dest: str
    headers_only: bool


class _StreamName(TypedDict):
    name: str


class StreamSettings(_StreamName, total=False):
    """As they are sent, and as the broker returns them. Durations are in nanoseconds."""

    subjects: list[str] | None
    retention: str
    storage: str
    discard: str
    compression: str
    num_replicas: int
    max_age: int
    max_bytes: int
    max_msgs: int
    max_msgs_per_subject: int
    duplicate_window: int
    allow_direct: bool
    allow_rollup_hdrs: bool
    allow_msg_ttl: bool
    deny_delete: bool
    republish: Republish | None


class StreamState(msgspec.Struct, frozen=True):
    """`subjects`: only if they were asked for, and if there are any."""

    messages: int = 0
    bytes: int = 0
    first_seq: int = 0
    last_seq: int = 0
    consumer_count: int = 0
    subjects: dict[str, int] | None = None


class StreamInfo(msgspec.Struct, frozen=True):
    """`ts`: the time of the broker. `total`: of the subjects, which are returned in pages."""

    config: StreamSettings
    state: StreamState
    created: str
    ts: str = ""
    total: int = 0


class StreamNames(msgspec.Struct, frozen=True):
    streams: list[str] | None = None


class ConsumerSettings(TypedDict, total=False):
    """As they are sent. Durations are in nanoseconds."""

    name: str
    durable_name: str
    filter_subject: str
    deliver_subject: str
    deliver_policy: str
    ack_policy: str
    ack_wait: int
    max_deliver: int
    max_ack_pending: int
    max_waiting: int
    opt_start_seq: int
    flow_control: bool
    idle_heartbeat: int
    inactive_threshold: int
    headers_only: bool
    mem_storage: bool
    num_replicas: int


class Delivered(msgspec.Struct, frozen=True):
    stream_seq: int = 0


class ConsumerInfo(msgspec.Struct, frozen=True):
    config: ConsumerSettings
    delivered: Delivered
    num_pending: int = 0
    num_ack_pending: int = 0
    num_redelivered: int = 0


class ConsumerList(msgspec.Struct, frozen=True):
    consumers: list[ConsumerInfo] | None = None


class AccountLimits(msgspec.Struct, frozen=True):
    """-1: no limit."""

    max_storage: int = -1


class AccountInfo(msgspec.Struct, frozen=True):
    storage: int = 0
    limits: AccountLimits | None = None
