"""The operator's face: health, workers, wheels, dead letters, approvals and metrics."""
