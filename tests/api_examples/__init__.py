"""The examples in the OpenAPI document: recorded on a tour of a real gateway, and compared with it."""
