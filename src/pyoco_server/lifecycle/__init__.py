"""The core: what a run is, which commands it accepts, and which events follow. No clock, no I/O, no await."""
