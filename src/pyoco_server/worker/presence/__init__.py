"""What a worker tells the fleet: its `heartbeat` (lease and registry entry), whether it drains, and until
when it may start something.
"""
