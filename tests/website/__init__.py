"""The documentation site: it is built once for these tests, and read in a browser."""
