"""The application: faces, middleware, error handlers, and the gateway that starts and stops with it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from pyoco_server.broker import EmbeddedBroker
from pyoco_server.config import NatsBackendConfig, read_environment
from pyoco_server.errors import PyocoError
from pyoco_server.http_api import error_answers, pages
from pyoco_server.http_api.faces.executions import routes as executions
from pyoco_server.http_api.faces.executions.event_history import EventHistory
from pyoco_server.http_api.faces.executions.stream_routes import events_topic
from pyoco_server.http_api.faces.jobs import routes as jobs
from pyoco_server.http_api.faces.operator import routes as operator
from pyoco_server.http_api.faces.operator.topics import TOPICS as OPERATOR_TOPICS
from pyoco_server.http_api.faces.recheck import routes as recheck
from pyoco_server.http_api.faces.runs import routes as runs
from pyoco_server.http_api.faces.runs.topics import TOPICS as RUN_TOPICS
from pyoco_server.http_api.gateway import Gateway
from pyoco_server.http_api.middleware.access_log import redact_server_logs
from pyoco_server.http_api.middleware.authentication import Authentication, with_security
from pyoco_server.http_api.middleware.credentials import Authenticators, security_schemes
from pyoco_server.http_api.middleware.guard import RequestGuard
from pyoco_server.http_api.middleware.hot_routes import HotRoutes
from pyoco_server.http_api.middleware.tickets import ByTicket
from pyoco_server.http_api.routing.document import document
from pyoco_server.http_api.routing.schemas import Schema
from pyoco_server.http_api.server import protocol
from pyoco_server.http_api.server.shutdown import call_before_shutdown
from pyoco_server.http_api.streaming import live_stream
from pyoco_server.json_value import JsonObject
from pyoco_server.logging_config import HTTP_SERVICE, configure_if_unset, report_wrong_settings

log = logging.getLogger(__name__)

INFO = {
    "title": "pyoco-server",
    "summary": "Runs pyoco flows: submitted over HTTP, queued durably, executed by workers.",
    "version": version("pyoco-server"),
}


_TOPICS = {**RUN_TOPICS, "events": events_topic, **OPERATOR_TOPICS}
FACES = [
    operator.FACE,
    runs.FACE,
    runs.BATCHES,
    runs.SCHEDULES,
    executions.FACE,
    live_stream.face(_TOPICS),
    jobs.FACE,
]


class GatewayApp(Starlette):
    """Starlette behind the request guard, authentication and hot routes; and its OpenAPI document."""

    described: Schema | None = None

    def install_middleware(self, gateway: Gateway) -> None:
        operations = [one for face in (*FACES, recheck.FACE) for one in face.operations]
        front: ASGIApp = HotRoutes(super().__call__, operations)
        if gateway.credentials is not None:
            config, methods = gateway.config, gateway.config.auth_methods
            keys = gateway.keys if "api_key" in methods else None
            checks = Authenticators(keys, gateway.tokens if "jwt" in methods else None)
            by_ticket = ByTicket(gateway.store, checks)
            front = Authentication(front, config, checks, by_ticket, known=gateway.credentials)
        self._front = RequestGuard(front, gateway.config, gateway.start_wait, gateway.own_hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self
        await self._front(scope, receive, send)

    def openapi(self) -> Schema:
        if self.described is None:
            gateway: Gateway = self.state.gateway
            config = gateway.config
            takes = {"api_key": gateway.keys, "jwt": gateway.tokens}
            schemes = security_schemes(config, [name for name, check in takes.items() if check is not None])
            rechecks = replace(recheck.FACE, security=[{name: []} for name in schemes])
            schema = document(INFO, [*FACES, rechecks], schemes)
            self.described = with_security(schema, config) if config.auth_methods else schema
        return self.described


def create_app(
    config: NatsBackendConfig | None = None, *, broker: EmbeddedBroker | None = None
) -> GatewayApp:
    """`uvicorn pyoco_server.http_api:create_app --factory`; without a config: from the environment.

    `broker`: the embedded broker of this process; its disk and its problems are part of `/ready`. Configures
    logging, unless the program has done so (docs/decisions/0028).
    """
    config = _configure_logging(config)
    app = GatewayApp(lifespan=_lifespan)
    app.router.redirect_slashes = False
    app.state.gateway = Gateway(config, make_history=EventHistory, broker=broker)
    app.router.routes += jobs.BEFORE
    for face in FACES:
        app.router.routes += face.routes()
    app.router.routes += [recheck.UNKNOWN_PATHS, *recheck.FACE.routes()]
    app.router.routes += pages.ROUTES
    app.add_exception_handler(PyocoError, error_answers.on_error)
    app.add_exception_handler(HTTPException, error_answers.on_http_exception)
    app.add_exception_handler(ClientDisconnect, error_answers.on_disconnect)
    app.add_exception_handler(Exception, error_answers.on_error)
    redact_server_logs(config.http_api_key_header)
    if config.allow_unauthenticated and not config.auth_methods:
        log.warning(
            "authentication is off and PYOCO_ALLOW_UNAUTHENTICATED is set: "
            "everything that can reach this gateway may run code on its workers"
        )
    app.install_middleware(app.state.gateway)
    return app


def _configure_logging(config: NatsBackendConfig | None) -> NatsBackendConfig:
    """Returns the settings: from the environment if none are given."""
    if config is None:
        config = NatsBackendConfig.from_settings(report_wrong_settings(HTTP_SERVICE, read_environment()))
    configure_if_unset(HTTP_SERVICE, config)
    return config


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[JsonObject]:
    gateway: Gateway = app.state.gateway
    await gateway.start()
    server = call_before_shutdown(gateway.streams.end)
    if server is not None:
        protocol.install(server.config)
    yield {protocol.STATE: gateway.connections}
    await gateway.stop()
