"""Measurements, each with a raw reference of the same run. Compare ratios between machines, not times."""
