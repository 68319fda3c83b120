"""The options that all lists of runs have, in one place: `run list` and `run pages`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, get_type_hints

import typer

from pyoco_server.cli.client.options import CursorOption, LimitOption

if TYPE_CHECKING:
    from pyoco_server.http_client import PyocoHttpClient
    from pyoco_server.http_client.answers import RunPageAnswer


@dataclass(frozen=True, slots=True)
class RunFilters:
    """Each field is an option."""

    status: Annotated[
        str | None, typer.Option(help="PENDING, RUNNING, CANCELLING, COMPLETED, FAILED or CANCELLED.")
    ] = None
    flow: Annotated[str | None, typer.Option(help="Only runs of this flow.")] = None
    tag: Annotated[str | None, typer.Option(help="Only runs with this routing tag.")] = None
    full: Annotated[bool, typer.Option("--full", help="Whole snapshots instead of summaries.")] = False
    limit: LimitOption = None
    cursor: CursorOption = None

    @property
    def has_any(self) -> bool:
        """Whether an empty list may be due to them."""
        return bool(self.status or self.flow or self.tag)

    def page(
        self,
        client: PyocoHttpClient,
        *,
        changed_after: float | None,
        search: str | None = None,
        workflow_yaml_sha256: str | None = None,
    ) -> RunPageAnswer:
        return client.list_runs_vnext(
            **asdict(self), updated_after=changed_after, q=search, workflow_yaml_sha256=workflow_yaml_sha256
        )


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options of `RunFilters`, which it gets as one value, and then its own."""
    made: Callable[..., RunFilters] = RunFilters
    names = [field.name for field in fields(RunFilters)]

    def with_options(ctx: typer.Context, **given: object) -> None:
        filters = made(**{name: given.pop(name) for name in names})
        command(ctx, filters, **given)

    context, _, *own = inspect.signature(command).parameters.values()
    shared = inspect.signature(RunFilters).parameters.values()
    hints = get_type_hints(RunFilters, include_extras=True) | get_type_hints(command, include_extras=True)
    parameters = [one.replace(annotation=hints[one.name]) for one in (context, *shared, *own)]
    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    return with_options
