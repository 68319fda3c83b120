"""The operations on rechecks: `accept` and start them, `settle` their batches, `query` them, and change the
catalogue. `workers` and `airflow` execute batches."""
