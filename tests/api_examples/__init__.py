"""The examples of the OpenAPI document: recorded from a real gateway, and compared with its answers."""
