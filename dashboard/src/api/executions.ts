// The words of the executions face that pages use: events, nodes, why.

export type ExecutionEvent = {
  eventId: string
  seq: number
  type: string
  occurredAt: string
  actor: { kind: string; id?: string }
  payload: {
    nodeId?: string
    attempt?: number
    workerId?: string
    waitKey?: string
    decision?: string
    by?: string
    comment?: string
    canceledByExecution?: boolean
    error?: { code?: string; message?: string }
    [more: string]: unknown
  }
}

export type EventsPage = { executionId: string; events: ExecutionEvent[]; hasMore: boolean }

export type Why = {
  summary: string
  reasons: { reason: string; message: string; nodeId?: string }[]
  refused: { command: string; reason: string; at: string; nodeId?: string; by?: string }[]
}

export type Approval = {
  run_id: string
  task: string
  wait_key: string
  prompt: Record<string, unknown> | null
  since: number
  deadline_at: number | null
  flow_name: string
  tag: string
}

/** An approval that was answered. */
export type GivenAnswer = {
  run_id: string
  task: string
  flow_name: string
  tag: string
  prompt: Record<string, unknown> | null
  since: number | null
  decision: 'approve' | 'reject'
  by: string | null
  comment: string | null
  answered_at: number
}

export type Graph = { graphId: string; version: number; createdAt: string; nodes?: unknown[]; nodeCount?: number }
