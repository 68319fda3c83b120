"""The operations of the product, in folders by noun, for all APIs and housekeeping. No HTTP, no NATS."""
