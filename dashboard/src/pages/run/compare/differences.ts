// What differs between two JSON values, and between the tasks of two runs. Pure.
import type { Run } from '../../../api/types'
import { stateOf } from '../story'

/** `undefined`: the value is missing on this side. */
export type Difference = { path: string; left: unknown; right: unknown; differs: boolean }

export const DIFFERENCES_MAX = 200
const DEPTH_MAX = 12

/** The leaves of both, by path. `cut`: there are more than are shown. */
export function differencesOf(left: unknown, right: unknown): { rows: Difference[]; cut: boolean } {
  const rows: Difference[] = []
  collect('', left, right, rows, 0)
  return { rows: rows.slice(0, DIFFERENCES_MAX), cut: rows.length > DIFFERENCES_MAX }
}

function collect(path: string, left: unknown, right: unknown, rows: Difference[], depth: number): void {
  if (rows.length > DIFFERENCES_MAX) return
  const names = depth < DEPTH_MAX ? membersOf(left, right) : null
  if (names === null) {
    rows.push({ path, left, right, differs: JSON.stringify(left) !== JSON.stringify(right) })
    return
  }
  const isList = Array.isArray(left)
  for (const name of names)
    collect(placed(path, name, isList), memberOf(left, name), memberOf(right, name), rows, depth + 1)
}

/** Of two objects, or two lists: the names of both. `null`: at least one of them is no such thing, or another one. */
function membersOf(left: unknown, right: unknown): string[] | null {
  const isPair = isMany(left) && isMany(right) && Array.isArray(left) === Array.isArray(right)
  if (!isPair) return null
  const names = [...new Set([...Object.keys(left), ...Object.keys(right)])]
  return names.length === 0 ? null : names
}

const isMany = (value: unknown): value is object => typeof value === 'object' && value !== null

function memberOf(value: unknown, name: string): unknown {
  return Object.hasOwn(value as object, name) ? (value as Record<string, unknown>)[name] : undefined
}

function placed(path: string, name: string, isList: boolean): string {
  if (isList) return `${path}[${name}]`
  return path === '' ? name : `${path}.${name}`
}

export type TaskSide = { state: string; seconds: number | null; attempt: number }
export type TaskPair = { name: string; left: TaskSide | null; right: TaskSide | null }

/** Tasks of both runs, in the order of the first, then those that only the second has. */
export function tasksOf(left: Run, right: Run): TaskPair[] {
  const names = [...new Set([...Object.keys(left.tasks), ...Object.keys(right.tasks)])]
  return names.map((name) => ({ name, left: sideOf(left, name), right: sideOf(right, name) }))
}

function sideOf(run: Run, name: string): TaskSide | null {
  if (!(name in run.tasks)) return null
  const record = run.task_records?.[name]
  const ended = record?.started_at != null && record.ended_at != null
  return {
    state: stateOf(run, name),
    seconds: ended ? Math.max(0, (record.ended_at as number) - (record.started_at as number)) : null,
    attempt: record?.attempt ?? 0,
  }
}

/** How much longer than `other`; less than 0: shorter. `null`: one of them is not known. */
export function longerBy(other: number | null | undefined, own: number | null | undefined): number | null {
  return other == null || own == null ? null : own - other
}
