"""What authors of flows import, and how their flows are found. Imports no other package of the product."""

from pyoco_server.flows.resolve import FlowResolver, ResolverError, load_resolver

__all__ = ["FlowResolver", "ResolverError", "load_resolver"]
