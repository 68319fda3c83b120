import pytest

pytest.register_assert_rewrite("tests.http_api.serving")
