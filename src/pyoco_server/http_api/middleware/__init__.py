"""What a request passes before its route: limits, host checks, credentials, scopes; and what is logged."""
