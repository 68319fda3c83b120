"""The core: what a run is, what may be asked of it, what then happens. No clock, no I/O, no await."""
