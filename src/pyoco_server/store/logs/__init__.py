"""What runs print: `chunks` (as it lies in the stream), `writer` (append), `reader` (any part of it)."""
