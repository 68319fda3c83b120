"""The operator's face: is it alive, is it ready."""
