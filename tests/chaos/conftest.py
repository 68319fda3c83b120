"""The environment of the fault tests."""

from tests.faults.conftest import config as config
