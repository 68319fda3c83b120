"""The environment of the store's tests."""

from tests.store.conftest import config as config
from tests.store.conftest import other_store as other_store
