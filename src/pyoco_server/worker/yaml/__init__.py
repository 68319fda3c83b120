"""Flows out of a run's own `flow.yaml`: its graph, its tasks, and which code it may name."""
