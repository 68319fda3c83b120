"""Every setting: its name, unit, default, bounds and meaning. All else about settings is derived.

docs/reference/configuration.md is generated from here: the type of a setting gives the allowed values, its
sentence the meaning.
"""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from pyoco_server.config.kinds import (
    AuthMode,
    Bytes,
    Count,
    Durability,
    Executor,
    FilePath,
    Flag,
    Header,
    Host,
    Hosts,
    Kept,
    Language,
    Lease,
    LogFormat,
    LogLevel,
    Message,
    Name,
    Packages,
    Port,
    Replicas,
    RunsInSlot,
    Scheduling,
    Seconds,
    Secret,
    Servers,
    Slots,
    SlotStart,
    Subject,
    Tag,
    Text,
    Variables,
    Wait,
    WebAddress,
    Word,
)


def opt(default: object, meaning: str) -> Any:
    """One option of the table below."""
    return Field(default=default, description=meaning)


# `defer_build`: only NatsBackendConfig checks values. A check of its own took 25 ms in every process.
@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid", defer_build=True))
class Table:
    # The broker
    nats_url: Servers = opt("nats://127.0.0.1:4222", "Addresses of the NATS servers.")
    nats_creds_file: Text = opt("", "Path of a credentials file for the broker.")
    nats_user: Text = opt("", "User at the broker; needs a password.")
    nats_password: Text = opt("", "Password at the broker. A secret.")
    nats_tls_ca_file: Text = opt("", "CA certificates for the broker's certificate; empty: the system's.")
    nats_tls_cert_file: Text = opt("", "Client certificate for the broker; needs its key.")
    nats_tls_key_file: Text = opt("", "Key of that certificate.")
    nats_inbox_prefix: Subject = opt(
        "_INBOX", "Subject prefix of replies; give each account with limited rights its own."
    )
    nats_replicas: Replicas = opt(1, "Copies of every stream and bucket; more than 1 needs a cluster.")
    broker_timeout_sec: Seconds = opt(2.0, "How long one request to the broker may take.")
    data_dir: FilePath = opt(".pyoco/data", "Folder of the embedded broker: store, address, credentials.")
    durability: Durability = opt("always", "When the embedded broker syncs: always, or at an interval.")
    cpu_scheduling: Scheduling = opt(
        "auto",
        "Scheduling class of our processes on Linux; auto: batch for workers, and if durability is interval.",
    )
    disk_reserve_bytes: Bytes = opt(
        268_435_456,
        "New work is refused while the broker has less space than this, or a quarter of a small disk.",
    )

    # Names at the broker
    work_stream: Name = opt("PYOCO_WORK", "Stream of the work queue.")
    work_subject_prefix: Subject = opt("pyoco.work", "Jobs are published as `<prefix>.<tag>`.")
    consumer_prefix: Name = opt("pyoco_workers", "The durable consumer of a tag is `<prefix>_<tag>`.")
    default_tag: Tag = opt("default", "Routing tag of a run submitted without one.")
    runs_kv_bucket: Name = opt("pyoco_runs", "Bucket of the snapshots; logs and results are named after it.")
    workers_kv_bucket: Name = opt("pyoco_workers", "Bucket of the worker registry.")
    auth_kv_bucket: Name = opt("pyoco_auth", "Bucket of the API keys.")

    # The queue
    consumer_ack_wait_sec: Seconds = opt(
        30.0, "A delivery without progress for this long is delivered again."
    )
    consumer_max_deliver: Count = opt(20, "A run that loses its worker this often ends FAILED.")
    consumer_max_ack_pending: Count = opt(200, "Deliveries of one tag that may be in progress at once.")
    ack_progress_interval_sec: Seconds = opt(
        10.0, "How often a worker reports progress of a delivery to the queue."
    )
    owed_job_after_sec: Seconds = opt(60.0, "A run without its job for this long gets a new job.")

    # Dead letters
    dlq_stream: Name = opt("PYOCO_DLQ", "Stream of the dead letters.")
    dlq_subject_prefix: Subject = opt("pyoco.dlq", "Dead letters are published below this subject.")
    dlq_publish_execution_error: Flag = opt(True, "Whether a failed flow leaves a dead letter.")
    dlq_max_age_sec: Seconds = opt(604_800.0, "Dead letters are kept this long.")
    dlq_max_msgs: Count = opt(100_000, "Dead letters kept at most; the oldest go first.")
    dlq_max_bytes: Bytes = opt(536_870_912, "Size of all dead letters at most; the oldest go first.")

    # Workers
    worker_concurrency: Slots = opt(0, "Runs that one worker executes at once.")
    slot_start: SlotStart = opt(
        "auto",
        "How slots are started: forked from a process that has loaded the flows where that is safe, from one "
        "that has loaded only the `imports` of the server, or as `fresh` interpreters.",
    )
    worker_interleaved_runs: RunsInSlot = opt(
        16, "Runs of short flows that one slot executes in turn at most; 1 switches this off."
    )
    run_heartbeat_interval_sec: Seconds = opt(1.0, "How often a running run's `heartbeat_at` is renewed.")
    worker_heartbeat_interval_sec: Seconds = opt(5.0, "How often a worker renews its registry entry.")
    workers_kv_ttl_sec: Seconds = opt(15.0, "Kept for compatibility; the disconnect timeout decides.")
    worker_disconnect_timeout_sec: Seconds = opt(
        20.0, "A worker without a heartbeat for this long is DISCONNECTED."
    )
    worker_history_sec: Wait = opt(
        604_800.0, "Workers that are gone are listed this long; 0 means without limit."
    )
    worker_lease_sec: Lease = opt(5.0, "A worker that does not renew its lease for this long loses its runs.")
    worker_lease_interval_sec: Seconds = opt(1.0, "How often a worker renews its lease; less than the lease.")
    max_crashes: Count = opt(3, "A run that kills its slot this often ends FAILED.")
    cancel_grace_period_sec: Wait = opt(
        30.0, "How long a cancelled run may take to stop; then its slot is killed."
    )
    drain_timeout_sec: Wait = opt(
        30.0, "How long a stopping worker may finish runs before it hands them back."
    )
    housekeeping_interval_sec: Seconds = opt(
        1.0, "How often housekeeping looks for work that is due by time."
    )
    flow_parallelism: Count = opt(8, "Tasks of one run that are executed at once.")
    run_timeout_sec: Wait = opt(0.0, "A run that takes longer than this fails; 0 means no limit.")
    callable_allow: Packages = opt("", "Packages that `callable:` in a flow.yaml may use.")
    flow_env: Variables = opt("", "Variables that `$env` in a flow.yaml may read; `APP_*`: by prefix.")

    # Sizes
    params_max_bytes: Bytes = opt(196_608, "Largest parameters of a run; at most a commit.")
    commit_max_bytes: Message = opt(524_288, "Largest message of the event log; the broker must accept it.")
    max_run_snapshot_bytes: Bytes = opt(262_144, "Largest snapshot; beyond it task records are left out.")
    result_max_bytes: Bytes = opt(67_108_864, "Largest task result that is kept.")
    workflow_yaml_max_bytes: Bytes = opt(262_144, "Largest flow.yaml.")

    # HTTP
    http_host: Host = opt("127.0.0.1", "Address the gateway listens on.")
    http_port: Port = opt(8000, "Port the gateway listens on.")
    start_wait_sec: Wait = opt(5.0, "How long requests wait for a gateway that is starting.")
    http_connections_max: Count = opt(
        8_192, "Connections at once; fewer if the limit of open files is lower."
    )
    http_connections_per_peer_max: Count = opt(
        512, "Connections at once from one address that is not a proxy."
    )
    http_header_timeout_sec: Seconds = opt(10.0, "How long the headers of a request may take.")
    http_body_timeout_sec: Seconds = opt(30.0, "How long a body may take, plus the time for its size.")
    http_body_min_bytes_per_sec: Count = opt(1_024, "A body may take one more second per this many bytes.")
    http_idle_timeout_sec: Seconds = opt(30.0, "How long a connection may wait for its next request.")
    http_send_timeout_sec: Seconds = opt(60.0, "How long a client may read nothing of an answer.")
    http_max_header_bytes: Bytes = opt(65_536, "Largest headers of a request, all together.")
    http_max_headers: Count = opt(128, "Headers that a request may have.")
    http_max_url_bytes: Bytes = opt(16_384, "Longest URL.")
    http_max_body_bytes: Bytes = opt(8_388_608, "Largest request body; wheels have their own limit.")
    public_url: WebAddress = opt("", "Address of the gateway for clients; signed URLs begin with it.")
    allow_unauthenticated: Flag = opt(False, "Whether to serve beyond loopback without authentication.")
    allowed_hosts: Hosts = opt("", "Hosts accepted besides loopback while authentication is off.")
    http_auth_mode: AuthMode = opt("none", "How callers authenticate.")
    http_api_key_header: Header = opt("X-API-Key", "Header that carries the API key.")
    auth_failures_per_min: Count = opt(
        300, "Invalid keys and tokens that one address may send in a minute; then 429."
    )
    jwt_jwks: Text = opt("", "JWKS for the signatures of tokens: a path or a URL.")
    jwt_issuer: Word = opt("noctria.auth", "Required issuer of tokens.")
    jwt_audience: Word = opt("pyoco-server", "Audience of tokens, besides `pdca` and `pdca.gui`.")
    jwt_leeway_sec: Wait = opt(120.0, "Tolerated clock difference of the issuer of tokens.")
    auth_pepper: Secret = opt(None, "Mixed into API key hashes. A secret; changing it ends every key.")
    read_model_path: Text = opt("", "File of the gateway's disposable index of runs; empty means memory.")
    jobs_flow: Text = opt("main", "Flow of a job that names no flow.")
    run_history_sec: Wait = opt(0.0, "Ended runs are erased after this long; 0 means never.")
    streams_per_caller: Count = opt(200, "Streams, sockets and waits (`wait=`) one caller may have open.")
    streams_max: Count = opt(2_000, "Streams, sockets and waits open at one gateway.")
    list_wait_sec: Wait = opt(5.0, "How long a list waits for the index to catch up.")
    idempotency_ttl_sec: Kept = opt(172_800.0, "How long an `Idempotency-Key` and its answer are kept.")
    dashboard_lang: Language = opt(
        "auto", "Language of the dashboard; `auto`: the locale's, or the browser's."
    )

    # Rechecks
    strategies_file: Text = opt("", "Catalogue of strategies that fills the default tenant at start.")
    recheck_reads_per_min: Count = opt(600, "Reads that one client may make in a minute.")
    recheck_per_min: Count = opt(120, "Rechecks that one client may ask for in a minute.")
    recheck_all_per_min: Count = opt(10, "Rechecks of many that one client may ask for in a minute.")
    recheck_kept_sec: Seconds = opt(31_536_000.0, "Requests, results and artifacts are kept this long.")
    recheck_executor: Executor = opt("pyoco", "What evaluates: workers, or a DAG in Airflow.")
    airflow_url: Text = opt("", "Address of Airflow's REST API.")
    airflow_token: Secret = opt(None, "Bearer token for Airflow. A secret.")
    airflow_user: Text = opt("", "User at Airflow, if there is no token.")
    airflow_password: Secret = opt(None, "Password of that user. A secret.")

    # Wheels
    wheel_object_store_bucket: Name = opt("pyoco_wheels", "Object store of the wheels.")
    wheel_max_bytes: Bytes = opt(536_870_912, "Largest wheel.")
    wheel_unpacked_max_bytes: Bytes = opt(2_147_483_648, "Size of all files of a wheel, unpacked.")
    wheel_unpacked_max_files: Count = opt(100_000, "Files that a wheel may have.")
    wheel_sync_enabled: Flag = opt(False, "Whether workers install the wheels of their tags.")
    wheel_sync_dir: FilePath = opt(".pyoco/wheels", "Folder into which a worker installs wheels.")
    wheel_sync_interval_sec: Seconds = opt(10.0, "How often a worker looks for wheels.")
    wheel_install_timeout_sec: Seconds = opt(180.0, "How long installing one wheel may take.")
    wheel_history_kv_bucket: Name = opt("pyoco_wheel_history", "Bucket of the history of wheels.")
    wheel_history_ttl_sec: Seconds = opt(7_776_000.0, "That history is kept this long.")

    # What runs print
    log_max_lines_per_run: Count = opt(1_000_000, "Lines kept of one run; further lines are left out.")
    log_max_lines_per_sec: Count = opt(100_000, "Lines per second that one run may print continuously.")
    log_max_age_sec: Seconds = opt(2_592_000.0, "What runs print is kept this long.")
    log_max_bytes: Bytes = opt(10_737_418_240, "Size of the output of all runs; the oldest goes first.")
    log_search_sec: Seconds = opt(2.0, "A search of a log pauses after this long and returns its position.")
    log_search_max_bytes: Bytes = opt(134_217_728, "A search pauses after it has read this much of a log.")
    log_searches_per_caller: Count = opt(4, "Log searches that one caller may run at once.")
    log_searches_max: Count = opt(16, "Log searches that one gateway runs at once.")

    # Logging
    log_level: LogLevel = opt("INFO", "Least severe level that is written.")
    log_format: LogFormat = opt("json", "One JSON object per line, or lines for people.")
    log_utc: Flag = opt(True, "Times in UTC; otherwise in local time with its offset.")
    log_include_traceback: Flag = opt(True, "Whether errors carry their traceback.")

    # The .env file; these two are read from the real environment only
    load_dotenv: Flag = opt(True, "Whether the .env file is read.")
    env_file: FilePath = opt(".env", "Path of the .env file; one named here must exist.")
