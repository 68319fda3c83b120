"""What can go wrong between us and the broker.

Unavailable (503, ERR-PYOCO-0003)
├── BrokerAway       not connected: nothing was sent
├── AnswerLost       sent, and no answer came: it may have happened
└── BrokerRefused    the broker answered that it cannot
WrongSequence        somebody else wrote first; never leaves the store and operations
"""

from pyoco_server.errors import Unavailable


class BrokerAway(Unavailable):
    def __init__(self) -> None:
        super().__init__("The broker cannot be reached. Try again when /ready says so.")


class AnswerLost(Unavailable):
    def __init__(self, subject: str) -> None:
        super().__init__(f"The broker did not answer in time ({subject}). Try again.")


class BrokerRefused(Unavailable):
    def __init__(self, description: str, code: int = 0) -> None:
        super().__init__(f"The broker refused: {description}.")
        self.code = code


class WrongSequence(Exception):
    """The expected last sequence of a subject was another one."""
