// The API's words as types. What its description names is taken from there; the rest is named here.
import type { components } from './schema'

export type RunSummary = components['schemas']['RunSummary']
export type RunStatus = RunSummary['status']
export type Schedule = components['schemas']['Schedule']
export type TaskRecord = components['schemas']['SnapshotRecord']
export type TaskState = TaskRecord['state']

export type Run = Omit<components['schemas']['RunSnapshot'], 'pyoco' | 'task_records' | 'task_records_truncated'> & {
  task_records?: Record<string, TaskRecord>
  retry_of?: string
  retry_from?: string
  start_at?: number
  schedule_id?: string
  worker_alive?: boolean
  cancel_reason?: string
}

export const STATUSES: RunStatus[] = ['PENDING', 'RUNNING', 'CANCELLING', 'COMPLETED', 'FAILED', 'CANCELLED']
export const TERMINAL: ReadonlySet<string> = new Set(['COMPLETED', 'FAILED', 'CANCELLED'])

export type Counts = Record<RunStatus, number>
export type Minute = { at: number; submitted: number; completed: number; failed: number; cancelled: number }
export type Standing = { ready: boolean; reasons: string[] }

export type RunsNews = {
  runs: RunSummary[]
  gone: string[]
  counts: Counts
  /** A gateway of an earlier build leaves it out. */
  waiting?: number
  minute: Minute
  ts: number
  standing?: Standing
}

export type Stats = { counts: Counts; minutes: Minute[]; ts: number }
export type Page = { items: RunSummary[]; next_cursor: string | null }

export type GraphNode = { id: string; after: string[]; join: string; type?: string }
export type RunGraph = { run_id: string; nodes: GraphNode[]; ordered: boolean }

export type Caller = {
  tenant_id: string | null
  id: string | null
  scopes: string[] | null
  cancel_grace_sec: number
  has_strategies: boolean
}

export type WheelSync = {
  enabled: boolean
  last_result: 'disabled' | 'idle' | 'ok' | 'error'
  last_error: string | null
  last_synced_at: number | null
  installed_wheels: { wheel_name: string; package_name: string; package_version: string }[]
  skipped_incompatible: { wheel_name: string }[]
}

export type Worker = {
  worker_id: string
  instance_id: string
  state: 'RUNNING' | 'IDLE' | 'STOPPED_GRACEFUL' | 'DISCONNECTED'
  hidden: boolean
  /** It takes no new runs; that this is wanted of it is known a moment before. */
  draining: boolean
  drain_requested: boolean
  tags: string[]
  slots?: number
  free_slots?: number
  current_run_ids?: string[]
  last_run_id: string | null
  last_run_status: string | null
  last_seen_at: number | null
  last_fetch_at?: number | null
  stopped_at: number | null
  stop_reason: string | null
  /** When an operator last changed it. */
  updated_at?: number
  host?: string
  pid?: number
  started_at?: number
  versions?: Record<string, string | null>
  wheel_sync?: WheelSync
  flows?: Record<string, string>
  /** Null where the system of the worker does not tell. */
  usage?: Usage | null
}

/** `cpu`: cores in use on average since the measurement before, which is some seconds ago. */
export type Usage = {
  cpu: number | null
  cpu_cores: number | null
  memory_bytes: number
  slots: { pid: number; cpu: number | null; memory_bytes: number }[]
}

/** A parameter that a flow may be given. */
export type Param = { name: string; required: boolean; default?: unknown; type?: string; schema?: object }

export type KnownFlow = {
  params: Param[] | null
  flow_name: string
  description: string
  tags: string[]
  workers: number
  ended: Record<string, number>
  durations_sec: number[]
  last_run_id: string | null
  last_status: RunStatus | null
  last_tag: string | null
  last_at: number | null
}

export type Wheel = {
  name: string
  size_bytes: number
  modified: number | string | null
  sha256_hex: string
  tags: string[]
  package: string
  version: string
}

export type WheelEntry = {
  event_id: string
  action: string
  wheel_name: string
  occurred_at: number
  tags: string[]
  size_bytes: number | null
  actor: { tenant_id?: string | null; api_key_id?: string | null }
  source: { remote_addr?: string | null }
}

export type Letter = {
  id: string
  timestamp: number
  reason: string
  error: string | null
  run_id: string | null
  flow_name: string | null
  tag: string | null
  worker_id: string | null
  num_delivered: number | null
  payload?: string | null
  redriven_as?: string | null
  dismissed?: { at: number; by: string | null; note: string | null } | null
}

/** Runs that wait for a worker of a tag, and the live workers of the tag. */
export type TagQueue = {
  tag: string
  backlog: number
  backlog_is_more: boolean
  oldest_since: number | null
  workers: number
  draining: number
  slots: number
  free_slots: number
}

export type StreamInfo = {
  name: string
  messages: number
  bytes: number
  bytes_max: number | null
  messages_max: number | null
  age_max_sec: number | null
  last_seq: number
  consumers: number
}

export type System = {
  ready: boolean
  reasons: string[]
  broker: { url: string; embedded: boolean; durability: string | null }
  broker_version: string
  replicas: number
  reconnects: number
  read_model: { lag: number }
  streams: StreamInfo[]
  versions: Record<string, string>
  housekeeper: boolean
}
