"""The name under which existing code imports API keys."""

from pyoco_server.api_keys import (
    ApiKeyError,
    ApiKeyRecord,
    generate_api_key,
    parse_api_key,
    verify_api_key,
)

__all__ = ["ApiKeyError", "ApiKeyRecord", "generate_api_key", "parse_api_key", "verify_api_key"]
