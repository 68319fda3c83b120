"""A client of the broker that loses, delays, refuses and cuts, by rule or by a seeded chance.

It stands between the store and a real nats-server: what it lets through really happens. A request whose reply
is lost has been carried out; one that is lost has not; the store cannot tell which.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pyoco_server.jetstream.client import BrokerClient

NO_RESPONDERS = b"NATS/1.0 503\r\n\r\n"
PROPOSAL_IN_FLIGHT = {"err_code": 10164, "code": 503, "description": "wrong last sequence, in flight"}

NO_MESSAGE_FOUND = {"err_code": 10037, "code": 404, "description": "no message found"}


class Fault(StrEnum):
    LOSE_REQUEST = "lose_request"
    LOSE_REPLY = "lose_reply"
    DELAY = "delay"
    IN_FLIGHT = "in_flight"
    NOBODY_ANSWERS = "nobody_answers"  # as while the leader of a stream is being chosen
    NO_MESSAGE = "no_message"  # as a former leader answers a read of what was stored after it was cut off


@dataclass
class Rule:
    """What happens to the next `times` requests whose subject has `where` in it."""

    where: re.Pattern[str]
    fault: Fault
    times: int = 1
    sec: float = 0.2

    def applies(self, subject: str) -> bool:
        if self.times <= 0 or not self.where.search(subject):
            return False
        self.times -= 1
        return True


@dataclass
class Faults:
    """The rules of one client, and its chance."""

    seed: int = 0
    share: float = 0.0
    kinds: tuple[Fault, ...] = (Fault.LOSE_REQUEST, Fault.LOSE_REPLY, Fault.DELAY)
    pushes_lost: str | None = None
    rules: list[Rule] = field(default_factory=list)
    happened: list[tuple[str, str]] = field(default_factory=list)
    is_on: bool = True
    # Nothing goes out and nothing comes in, and the connection does not break.
    is_partitioned: bool = False

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def add(self, where: re.Pattern[str], fault: Fault, *, times: int = 1, sec: float = 0.2) -> Rule:
        rule = Rule(where, fault, times, sec)
        self.rules.append(rule)
        return rule

    def of(self, subject: str) -> tuple[Fault, float] | None:
        if not self.is_on:
            return None
        for rule in self.rules:
            if rule.applies(subject):
                return self._note(subject, rule.fault), rule.sec
        if self.share and self._random.random() < self.share:
            return self._note(subject, self._random.choice(self.kinds)), self._random.uniform(0.01, 0.5)
        return None

    def loses_push(self, subject: str) -> bool:
        lost = self.is_on and self.pushes_lost is not None and self.pushes_lost in subject
        if lost:
            self.happened.append((subject, "lose_push"))
        return lost

    def _note(self, subject: str, fault: Fault) -> Fault:
        self.happened.append((subject, fault))
        return fault


class FaultyClient(BrokerClient):
    def __init__(self, faults: Faults) -> None:
        super().__init__()
        self.faults = faults
        # Subjects with a publish that the replicas have not agreed on: others get 10164 for them.
        self._in_flight: set[str] = set()

    def send(self, subject: str, payload: bytes, *, reply: str = "", headers: bytes = b"") -> None:
        if self.faults.is_partitioned:
            return
        if reply and subject in self._in_flight:
            self._answer_in_flight(reply)
            return
        found = self.faults.of(subject) if reply else None
        if found is None:
            super().send(subject, payload, reply=reply, headers=headers)
            return
        fault, sec = found
        match fault:
            case Fault.LOSE_REQUEST:
                pass
            case Fault.LOSE_REPLY:
                super().send(subject, payload, reply="_LOST.reply", headers=headers)
            case Fault.DELAY:
                self._later(
                    sec,
                    lambda: super(FaultyClient, self).send(subject, payload, reply=reply, headers=headers),
                )
            case Fault.IN_FLIGHT:
                self._hold(sec, subject, payload, reply, headers)
            case Fault.NOBODY_ANSWERS:
                self._answer(reply, NO_RESPONDERS, b"")
            case Fault.NO_MESSAGE:
                self._answer(reply, b"", json.dumps({"error": NO_MESSAGE_FOUND}).encode())

    def _hold(self, sec: float, subject: str, payload: bytes, reply: str, headers: bytes) -> None:
        """As a cluster with a slow quorum: it is stored later, and meanwhile others are told to wait."""
        self._in_flight.add(subject)

        def store_it() -> None:
            self._in_flight.discard(subject)
            super(FaultyClient, self).send(subject, payload, reply=reply, headers=headers)

        self._later(sec, store_it)

    def _later(self, sec: float, act: Callable[[], None]) -> None:
        def unless_cut() -> None:
            if self.is_connected:
                act()

        asyncio.get_running_loop().call_later(sec, unless_cut)

    def _answer_in_flight(self, reply: str) -> None:
        self.faults.happened.append((reply, "answered 10164"))
        self._answer(reply, b"", json.dumps({"error": PROPOSAL_IN_FLIGHT}).encode())

    def _answer(self, reply: str, headers: bytes, body: bytes) -> None:
        prefix = reply.rsplit(".", 1)[0]
        for sid, subscription in self._subs.items():
            if subscription.subject == f"{prefix}.*":
                handler = self._handlers[sid]
                asyncio.get_running_loop().call_soon(handler, reply.encode(), b"", headers, body)

    def _hand_over(self, sid: int, subject: bytes, reply: bytes, headers: bytes, data: bytes) -> bool:
        if self.faults.is_partitioned or self.faults.loses_push(subject.decode()):
            return True
        return super()._hand_over(sid, subject, reply, headers, data)

    async def cut(self) -> None:
        """The connection breaks now, as if a cable were pulled; nats-py reconnects by itself."""
        transport: Any = self._transport
        if transport is not None:
            transport.close()


def faulty(faults: Faults) -> Callable[[], BrokerClient]:
    """A factory, as `Store` takes it."""
    return lambda: FaultyClient(faults)
