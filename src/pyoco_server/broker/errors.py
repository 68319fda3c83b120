"""What can go wrong with the embedded broker. Every message is a sentence that says what to do.

BrokerError
├── BrokerNotFound            no usable nats-server on this machine
├── BrokerTooOld              there is one, but it lacks what we rely on
├── DataFolderInUse           another process owns the data folder
└── BrokerFailedToStart       it exited, or never became ready; carries its last log lines
    └── PortTaken             … because another process listens on the port
"""


class BrokerError(Exception):
    """Anything the embedded broker could not do."""


class BrokerNotFound(BrokerError):
    """There is no nats-server to start."""


class ServerTooOld(BrokerError):
    """The nats-server found is older than we support."""


class DataFolderInUse(BrokerError):
    """Two servers must never write into one store, so the second one is refused."""


class BrokerFailedToStart(BrokerError):
    """The server exited during startup or did not become ready in time."""


class PortTaken(BrokerFailedToStart):
    """Another process took the port between the check and the server's bind."""
