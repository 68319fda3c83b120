"""What the verbs are tried with: a second gateway beside the first."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pyoco_server.store.store import Store


@pytest.fixture
async def other_store(store: Store) -> AsyncIterator[Store]:
    opened = await Store.connect(store.config, name="other")
    yield opened
    await opened.close()
