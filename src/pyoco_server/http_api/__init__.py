"""The gateway: HTTP in, operations below, HTTP out. One face per dialect, each in a folder of its own."""

from pyoco_server.http_api.app import create_app

__all__ = ["create_app"]
