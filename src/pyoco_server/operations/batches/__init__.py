"""Many runs in one request: `records` (what is stored of a batch), `submit`, `progress`, `cancel`."""
