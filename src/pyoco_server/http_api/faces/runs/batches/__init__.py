"""`/runs/batch` and `/batches` of the runs face: `body` (items of a request), `routes`."""
