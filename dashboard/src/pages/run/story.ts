// What happened to each task and when: stretches for the timeline, and how everything stood at any moment. Pure.
import type { ExecutionEvent } from '../../api/executions'
import type { Run } from '../../api/types'

export type Stretch = {
  kind: 'attempt' | 'wait' | 'queue'
  from: number
  to: number | null
  attempt: number
  status: string
}
export type Change = { seq: number; at: number; node: string; status: string }
export type Story = { nodes: string[]; stretches: Map<string, Stretch[]>; changes: Change[] }

/** A moment of the story: an instant, and where several events have the same one, the last that counts. */
export type Moment = { at: number; seq: number }

const STATUS_AFTER: Record<string, string> = {
  NODE_CREATED: 'IDLE',
  NODE_READY: 'READY',
  NODE_STARTED: 'RUNNING',
  NODE_WAITING: 'WAITING',
  NODE_RESUMED: 'RUNNING',
  NODE_SUCCEEDED: 'SUCCEEDED',
  NODE_FAIL_REPORTED: 'FAILED',
  NODE_FAILED: 'FAILED',
  NODE_CANCELED: 'CANCELED',
}

const REJECTED = 'REJECTED'

/** A rejection is a failure with its own code. A task that the end of other tasks made superfluous is skipped. */
function statusAfter(event: ExecutionEvent, before: Stretch[] | undefined): string | undefined {
  const status = STATUS_AFTER[event.type]
  if (status === 'FAILED' && event.payload.error?.code === REJECTED) return REJECTED
  const begun = before?.some((one) => one.kind !== 'queue')
  if (status === 'CANCELED' && event.payload.canceledByExecution === false && !begun) return 'SKIPPED'
  return status
}

/** How a task stands now, in the words of the page. */
export function stateOf(run: Run, name: string): string {
  const record = run.task_records?.[name]
  const state = run.tasks[name] ?? 'PENDING'
  if (record?.wait) return 'WAITING'
  if (state === 'FAILED' && record?.code === REJECTED) return REJECTED
  const unbegun = run.status === 'FAILED' && record?.started_at === null
  return state === 'CANCELLED' && (record?.skipped || unbegun) ? 'SKIPPED' : state
}

export function storyOf(events: ExecutionEvent[]): Story {
  const story: Story = { nodes: [], stretches: new Map(), changes: [] }
  for (const event of events) {
    const node = event.payload.nodeId
    if (node === undefined) continue
    const status = statusAfter(event, story.stretches.get(node))
    if (status === undefined) continue
    const at = Date.parse(event.occurredAt) / 1000
    if (!story.stretches.has(node)) {
      story.nodes.push(node)
      story.stretches.set(node, [])
    }
    story.changes.push({ seq: event.seq, at, node, status })
    tell(story.stretches.get(node) as Stretch[], status, at, event.payload.attempt ?? 0)
  }
  story.nodes = withIterations(story.nodes)
  return story
}

/** Of an iteration: `step[3]`, with one index for each loop around it. */
export const INDEXES = /(\[\d+\])+$/

/** Iterations of a loop come right after it, whenever they were made. */
export function withIterations(nodes: string[]): string[] {
  const groups = new Map<string, string[]>()
  for (const node of nodes) {
    const whole = node.replace(INDEXES, '')
    const group = groups.get(whole)
    if (group) group.push(node)
    else groups.set(whole, [node])
  }
  return [...groups.values()].flat()
}

function tell(stretches: Stretch[], status: string, at: number, attempt: number): void {
  const open = stretches.at(-1)
  const wasWaiting = open?.kind === 'wait' && open.to === null
  if (open && open.to === null) {
    open.to = at
    // Begun again without an end: the worker that had it was lost.
    if (open.kind === 'attempt')
      open.status = status === 'WAITING' ? 'SUCCEEDED' : status === 'RUNNING' ? 'LOST' : status
  }
  if (status === 'READY') stretches.push({ kind: 'queue', from: at, to: null, attempt, status })
  else if (status === 'RUNNING' && !wasWaiting) {
    const number = attempt || stretches.filter((one) => one.kind === 'attempt').length + 1
    stretches.push({ kind: 'attempt', from: at, to: null, attempt: number, status })
  } else if (status === 'WAITING') stretches.push({ kind: 'wait', from: at, to: null, attempt, status })
}

/** The same from a run's records, where its events cannot be had: the last attempt of each task. */
export function storyOfRecords(run: Run): Story {
  const story: Story = { nodes: [], stretches: new Map(), changes: [] }
  for (const [node, record] of Object.entries(run.task_records ?? {})) {
    story.nodes.push(node)
    const stretches: Stretch[] = []
    if (record.started_at !== null) {
      const status = stateOf(run, node)
      stretches.push({
        kind: record.wait ? 'wait' : 'attempt',
        from: record.started_at,
        to: record.ended_at,
        attempt: record.attempt,
        status,
      })
      story.changes.push({ seq: 0, at: record.started_at, node, status: 'RUNNING' })
      if (record.ended_at !== null) story.changes.push({ seq: 0, at: record.ended_at, node, status: record.state })
    }
    story.stretches.set(node, stretches)
  }
  story.changes.sort((a, b) => a.at - b.at)
  return story
}

/** What was under way when the worker was lost has ended there, also while no event says so. */
export function withLoss(story: Story, at: number | null): Story {
  if (at === null) return story
  const ended = (one: Stretch): Stretch =>
    one.kind === 'attempt' && one.to === null ? { ...one, to: Math.max(one.from, at), status: 'LOST' } : one
  return { ...story, stretches: new Map([...story.stretches].map(([node, all]) => [node, all.map(ended)])) }
}

/** How each task stood then: what had not happened yet did not. */
export function standingAt(story: Story, moment: Moment): Map<string, string> {
  const standing = new Map<string, string>(story.nodes.map((node) => [node, 'IDLE']))
  for (const change of story.changes) {
    if (change.seq > 0 ? change.seq <= moment.seq : change.at <= moment.at) standing.set(change.node, change.status)
  }
  return standing
}

/** The last event at or before an instant. */
export function momentOf(at: number, events: ExecutionEvent[]): Moment {
  let low = 0
  let high = events.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (Date.parse((events[middle] as ExecutionEvent).occurredAt) / 1000 <= at) low = middle + 1
    else high = middle
  }
  return { at, seq: events[low - 1]?.seq ?? 0 }
}
