"""Measurements, each beside a raw reference of the same run: ratios travel, milliseconds do not."""
