"""Faults between our processes and the broker, injected at the seams: one reply, one push, one client."""
