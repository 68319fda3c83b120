"""Reading requests, for every face: bodies, idempotency keys, log queries; and work that ends with them."""
