"""The runs face: the native dialect, a drop-in for what exists."""
