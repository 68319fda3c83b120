"""Settings: `table.py` lists them all; `backend.py` reads and checks them."""

from pyoco_server.config.backend import (
    LOG_SETTINGS,
    NatsBackendConfig,
    environment_for_children,
    environment_with,
    origins,
    own_language,
    read_environment,
    variable_for_flows,
    wrong_log_settings,
)
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
    "LOG_SETTINGS",
    "SECRETS",
    "NatsBackendConfig",
    "allowed_for",
    "as_written",
    "default_of",
    "environment_for_children",
    "environment_with",
    "field_names",
    "meaning_of",
    "origins",
    "own_language",
    "read_environment",
    "variable_for_flows",
    "variable_of",
    "without_credentials",
    "wrong_log_settings",
]
