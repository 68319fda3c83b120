"""What operators see and do: workers, wheels, flows, dead letters, metrics, the broker and its storage."""
