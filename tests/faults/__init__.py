"""Faults between our processes and the broker: a lost reply, a lost push, a client that is cut off."""
