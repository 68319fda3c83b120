"""What can be done, for whoever asks: the verbs of the product. Speaks no HTTP and no NATS."""
