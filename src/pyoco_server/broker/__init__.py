"""The embedded nats-server: finding, starting, watching and stopping that one process.

Independent of runs, HTTP and settings. `EmbeddedBroker` is the interface; the rest is for commands that look
for a broker that another process started.
"""

from pyoco_server.broker.credentials import BrokerCredentials, kept_credentials
from pyoco_server.broker.data_folder import recorded_broker_url
from pyoco_server.broker.disk import Disk
from pyoco_server.broker.embedded import EmbeddedBroker
from pyoco_server.broker.errors import (
    BrokerError,
    BrokerFailedToStart,
    BrokerNotFound,
    DataFolderInUse,
    PortTaken,
    ServerTooOld,
)
from pyoco_server.broker.find import find_nats_server
from pyoco_server.broker.probe import foreign_nats, wait_until_listening
from pyoco_server.broker.server_conf import Durability

__all__ = [
    "BrokerCredentials",
    "BrokerError",
    "BrokerFailedToStart",
    "BrokerNotFound",
    "DataFolderInUse",
    "Disk",
    "Durability",
    "EmbeddedBroker",
    "PortTaken",
    "ServerTooOld",
    "find_nats_server",
    "foreign_nats",
    "kept_credentials",
    "recorded_broker_url",
    "wait_until_listening",
]
