"""Errors of the embedded broker. Every message says what to do.

BrokerError
├── BrokerNotFound            no usable nats-server on this machine
├── ServerTooOld              there is one, but it is older than the oldest supported
├── DataFolderInUse           another process owns the data folder
└── BrokerFailedToStart       it exited, or never became ready; carries its last log lines
    └── PortTaken             … because another process listens on the port
"""


class BrokerError(Exception):
    """An error of the embedded broker."""


class BrokerNotFound(BrokerError):
    """There is no nats-server to start."""


class ServerTooOld(BrokerError):
    """The nats-server that was found is older than the oldest supported."""


class DataFolderInUse(BrokerError):
    """Two servers must not write into one store, so the second one is refused."""


class BrokerFailedToStart(BrokerError):
    """The server exited during startup or did not become ready in time."""


class PortTaken(BrokerFailedToStart):
    """Another process took the port between the check and the server's bind."""
