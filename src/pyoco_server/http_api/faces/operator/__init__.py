"""The operator's face: is it alive, who works here, on what code, and what could not be run."""
