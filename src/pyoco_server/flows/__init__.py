"""What authors of flows import, and how their flows are found. Stands alone: imports nothing else of ours."""

from pyoco_server.flows.resolve import FlowResolver, ResolverError, load_resolver

__all__ = ["FlowResolver", "ResolverError", "load_resolver"]
