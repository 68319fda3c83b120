"""The wheel registry: which wheels there are, for which workers, and what happened to them."""

from pyoco_server.store.fleet.wheels.content import check_content
from pyoco_server.store.fleet.wheels.history import HistoryEntry, Origin, WheelAction, WheelHistory
from pyoco_server.store.fleet.wheels.registry import Wheels
from pyoco_server.store.fleet.wheels.wheel import Wheel, check_tags, check_wheel_name, for_tags, newest

__all__ = [
    "HistoryEntry",
    "Origin",
    "Wheel",
    "WheelAction",
    "WheelHistory",
    "Wheels",
    "check_content",
    "check_tags",
    "check_wheel_name",
    "for_tags",
    "newest",
]
