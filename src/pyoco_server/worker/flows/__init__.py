"""The flows of a worker: where one comes from, its parameters, and reloading."""
