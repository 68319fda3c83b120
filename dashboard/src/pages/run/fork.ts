// What another try of a run executes again and what it takes over: the server's rule, told before it is asked. Pure.
import type { Run, RunGraph } from '../../api/types'
import { type Change, INDEXES } from './story'

export type From = { from: 'failed' | 'start' } | { from: 'task'; task: string }
export type Split = { again: string[]; kept: string[] }

/** What of a run is needed to tell. `changes`: in the order of the log; empty where it cannot be had. */
export type Past = { run: Run; graph: RunGraph | null; changes: Change[] }

const BEGUN: ReadonlySet<string> = new Set(['RUNNING', 'WAITING', 'SUCCEEDED', 'FAILED'])
const KEPT: ReadonlySet<string | null> = new Set(['stored', 'referenced'])

/** The tasks that a try may begin from: where their order is not known, only those that have begun. */
export function beginnings(past: Past): string[] {
  const names = Object.keys(past.run.tasks)
  if (!past.graph || past.graph.nodes.length === 0) return []
  if (isWired(past)) return names
  if (past.changes.length === 0) return names.filter((name) => past.run.tasks[name] !== 'PENDING')
  const begun = new Set(
    past.changes.filter((change) => BEGUN.has(change.status)).flatMap(({ node }) => [node, node.replace(INDEXES, '')]),
  )
  return names.filter((name) => begun.has(name))
}

/** Null where only the server can tell: who waits for whom was not written down, and the events cannot be had. */
export function splitOf(past: Past, from: From): Split | null {
  const names = Object.keys(past.run.tasks).filter((name) => !isUntaken(past.run, name))
  if (from.from === 'start') return { again: names, kept: [] }
  const chosen = from.from === 'task' ? fromTaskOn(past, from.task) : new Set<string>()
  if (chosen === null) return null
  const isKept = (name: string) => isCarried(past.run, name) && !chosen.has(name)
  return { again: names.filter((name) => !isKept(name)), kept: names.filter(isKept) }
}

/** Whether the run began with the result of this task, made by the run that it is another try of. */
export function isTakenOver(run: Run, name: string): boolean {
  const ended = run.task_records?.[name]?.ended_at ?? null
  return run.retry_of !== undefined && run.tasks[name] === 'SUCCEEDED' && ended !== null && ended <= run.submitted_at
}

/** The task and whatever comes after it, by the edges of the graph or else by the order of the log. */
function fromTaskOn(past: Past, task: string): Set<string> | null {
  if (!past.graph) return null
  if (isWired(past)) return withLater(past.graph, task)
  const begins = past.changes.findIndex((change) => isOf(change.node, task) && BEGUN.has(change.status))
  if (begins < 0) return null
  const before = new Set<string>()
  past.changes.forEach((change, place) => {
    if (change.status !== 'SUCCEEDED') return
    if (place < begins) before.add(change.node)
    else before.delete(change.node)
  })
  return new Set(Object.keys(past.run.tasks).filter((name) => !before.has(name)))
}

function withLater(graph: RunGraph, task: string): Set<string> {
  const waiting = new Map<string, string[]>()
  for (const node of graph.nodes)
    for (const other of node.after) waiting.set(other, [...(waiting.get(other) ?? []), node.id])
  const found = new Set([task])
  for (const name of found) for (const later of waiting.get(name) ?? []) found.add(later)
  return found
}

/** Iterations of a loop have records and no place in the graph: then it does not say who comes after whom. */
function isWired({ run, graph }: Past): boolean {
  if (!graph?.ordered) return false
  const drawn = new Set(graph.nodes.map((node) => node.id))
  return Object.keys(run.tasks).every((name) => drawn.has(name))
}

/** A result that nobody could give to the next task is made again. */
function isCarried(run: Run, name: string): boolean {
  const kept = run.task_records?.[name]?.kept
  return run.tasks[name] === 'SUCCEEDED' && (kept === undefined || kept === null || KEPT.has(kept))
}

/** A branch that the run came past without a need for it. */
function isUntaken(run: Run, name: string): boolean {
  return run.status === 'COMPLETED' && run.tasks[name] === 'PENDING'
}

function isOf(node: string, task: string): boolean {
  return node === task || node.startsWith(`${task}[`)
}
