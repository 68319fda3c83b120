"""What can go wrong between us and the broker.

Unavailable (503, ERR-PYOCO-0003)
├── BrokerAway       not connected: nothing was sent
├── AnswerLost       sent, and no answer came: it may have happened
│   └── ProposalInFlight   an earlier message of this subject is undecided, perhaps the same one
└── BrokerRefused    the broker answered that it cannot
    └── NoStorage    … because it has no space for it
WrongSequence        another writer was first; never leaves the store and operations
"""

from collections.abc import Collection

from pyoco_server.errors import Unavailable

# There is no responder, or the leader of the stream is being chosen.
_COMES_BACK = (503, 10008)


class _OfTheBroker(Unavailable):
    """The message has subjects and the text of the broker, for the log. Clients get `plain`."""

    plain = ""

    @property
    def public_message(self) -> str:
        return self.plain


class BrokerAway(Unavailable):
    def __init__(self) -> None:
        super().__init__("The broker cannot be reached. Try again when /ready says so.")


class AnswerLost(_OfTheBroker):
    plain = "The broker did not answer in time. Try again."

    def __init__(self, subject: str) -> None:
        super().__init__(f"The broker did not answer in time ({subject}). Try again.")


class ProposalInFlight(AnswerLost):
    """Not decided yet: a moment later the broker can check the expected sequence."""


class BrokerRefused(_OfTheBroker):
    plain = "The broker cannot do this now. Try again; the log of the gateway says more."

    def __init__(self, description: str, code: int = 0) -> None:
        super().__init__(f"The broker refused: {description}.")
        self.code = code

    @property
    def will_pass(self) -> bool:
        """The same request succeeds when the stream has a leader again."""
        return self.code in _COMES_BACK


class NoStorage(BrokerRefused):
    """A limit of the account, the server or the stream. After something was erased it may be tried again."""

    plain = "The broker has no room for this now. Erase runs that are over, or give it more space."


class StreamDoesNotFit(_OfTheBroker):
    """An existing stream does not have the settings that the configuration needs."""

    def __init__(self, message: str, plain: str) -> None:
        super().__init__(message)
        self.plain = plain


class LogLost(_OfTheBroker):
    """The event log is missing, and other streams show that there was one."""

    plain = (
        "The event log is missing, and there are runs that had one. Restore it from a backup, or give those "
        "runs up with: pyoco-server-admin accept-lost-log"
    )

    def __init__(self, stream: str) -> None:
        super().__init__(f"{self.plain} (stream {stream})")


class BrokerTooOld(Unavailable):
    """Waiting does not help: another nats-server has to be started."""


class StreamsSilent(_OfTheBroker):
    """Streams exist and do not answer: they have no leader. All others are usable."""

    plain = "Streams of the broker have no leader yet. What needs them waits; try again."

    def __init__(self, names: Collection[str]) -> None:
        super().__init__(f"{self.plain} ({', '.join(sorted(names))})")


class WrongSequence(Exception):
    """The expected last sequence of a subject was another one."""
