"""Settings: `table.py` lists them all; `backend.py` reads and checks them."""

from pyoco_server.config.backend import NatsBackendConfig, origins, own_language, read_environment
from pyoco_server.config.describe import (
    ENV_PREFIX,
    SECRETS,
    allowed_for,
    as_written,
    default_of,
    field_names,
    meaning_of,
    variable_of,
    without_credentials,
)

__all__ = [
    "ENV_PREFIX",
    "SECRETS",
    "NatsBackendConfig",
    "allowed_for",
    "as_written",
    "default_of",
    "field_names",
    "meaning_of",
    "origins",
    "own_language",
    "read_environment",
    "variable_of",
    "without_credentials",
]
