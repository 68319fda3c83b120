"""JSON Schema: whether a value has the form that a schema describes.

- `check`: a value against a schema, with limits for hostile ones
- `texts`: what a schema says about texts: length, pattern, format
- `values`: JSON values: numbers, and when two are the same
"""
