"""What a worker publishes: its `heartbeat` (lease and registry entry), whether it drains, and until when it
may start tasks.
"""
