"""A gateway that is ready, as the tests of the other faces have it."""

from tests.http_api.conftest import client as client
from tests.http_api.conftest import config as config
