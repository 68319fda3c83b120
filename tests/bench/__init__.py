"""The parts of `bench` that need no machine to measure: parsing, statistics, tables, the chart."""
