"""Wheel sync: a worker has the wheels of its tags, each sync that changes something as a new folder."""
