"""The operations of the product, for all callers. Knows neither HTTP nor NATS."""
