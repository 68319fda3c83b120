"""Rechecks, pure: what a strategy, a request and a result are, what is accepted, and how results are judged.

Values and rules only. No clock, no broker, no HTTP: `store` keeps these values, `operations.rechecks` acts on
them, and the recheck face speaks of them.
"""
