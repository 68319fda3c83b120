"""Tasks that a submitted flow.yaml may name."""


def hello() -> str:
    return "hello from yaml"
