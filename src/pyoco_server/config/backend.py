"""The settings of a process, read once and checked once. Nobody else reads the environment.

`NatsBackendConfig(...)` takes keywords and never looks at the environment; `NatsBackendConfig.from_env()`
reads `PYOCO_<FIELD>` and the .env file.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Self

from pydantic import ConfigDict, ValidationError, create_model, model_validator
from pydantic.dataclasses import dataclass
from pydantic_settings import BaseSettings, SettingsConfigDict

from pyoco_server.config.checks import broken_relations, refusal
from pyoco_server.config.describe import ENV_PREFIX, default_of, field_names, shown
from pyoco_server.config.names import Names
from pyoco_server.errors import ConfigError
from pyoco_server.texts import Language, locale_language


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class NatsBackendConfig(Names):
    """Where the broker is, what things are called there, and every limit and interval."""

    @classmethod
    def from_env(cls) -> Self:
        """Settings from `PYOCO_*` and the .env file; the real environment wins, empty means unset."""
        return cls(**read_environment())

    @model_validator(mode="wrap")
    @classmethod
    def _refuse_in_words(cls, value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError as refused:
            # Not `from refused`: its text would show the value of a secret.
            raise refusal(refused) from None

    def __post_init__(self) -> None:
        broken = list(broken_relations(self))
        if broken:
            raise ConfigError(" ".join(broken), details=[{"problem": sentence} for sentence in broken])

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in field_names())
        changed = (f"{name}={shown(name, value)}" for name, value in values if value != default_of(name))
        return f"NatsBackendConfig({', '.join(changed)})"


def read_environment() -> dict[str, Any]:
    """What `PYOCO_*` and the .env file say, by field and unchecked; a field nobody set is missing."""
    real = _environment_model()(_env_file=None).model_dump(exclude_none=True)
    switches = NatsBackendConfig(**{name: real[name] for name in ("load_dotenv", "env_file") if name in real})
    if not switches.load_dotenv:
        return real
    file = Path(switches.env_file)
    if "env_file" in real and not file.exists():
        raise ConfigError(f"PYOCO_ENV_FILE names {str(file)!r}, which does not exist; name a file that does.")
    try:
        return _environment_model()(_env_file=file).model_dump(exclude_none=True)
    except (OSError, UnicodeDecodeError) as unreadable:
        raise ConfigError(
            f"{str(file)!r} cannot be read as UTF-8 text ({unreadable}); correct it."
        ) from unreadable


def origins() -> dict[str, str]:
    """Where each setting comes from: `environment`, the name of the .env file, or `default`."""
    real = _environment_model()(_env_file=None).model_dump(exclude_none=True)
    found = dict.fromkeys(read_environment(), str(real.get("env_file", default_of("env_file"))))
    return dict.fromkeys(field_names(), "default") | found | dict.fromkeys(real, "environment")


@cache
def _environment_model() -> type[BaseSettings]:
    """Every setting as text: pydantic-settings only fetches, the checks above are the only ones."""
    fields: dict[str, Any] = dict.fromkeys(field_names(), (str | None, None))
    return create_model("PyocoEnvironment", __base__=_FetchedText, **fields)


class _FetchedText(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_ignore_empty=True, extra="ignore")


def own_language() -> Language | None:
    """That of the locale this process runs in; None where that names none of ours."""
    return locale_language(os.environ)
