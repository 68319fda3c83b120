// What a list of runs is sorted by, as the server sorts it. Pure.
import type { RunSummary } from '../../api/types'

/** As the API has them; empty: the latest change first. */
export const ORDERS = ['-submitted', 'submitted', '-duration', 'duration'] as const

export type Column = 'submitted' | 'duration'
export type Compare = (a: RunSummary, b: RunSummary) => number

/** `null`: by the latest change, where a changed run comes to the front. */
export function comparing(sort: string): Compare | null {
  if (sort === '') return null
  const value = sort.endsWith('duration') ? durationOf : (run: RunSummary) => run.submitted_at
  const sign = sort.startsWith('-') ? -1 : 1
  return (a, b) =>
    sign * ((value(a) ?? 0) - (value(b) ?? 0) || (a.run_id < b.run_id ? -1 : a.run_id > b.run_id ? 1 : 0))
}

/** Of a run that has started and ended; others have no place in a list by duration. */
export function durationOf(run: RunSummary): number | null {
  return run.start_time === null || run.end_time === null ? null : Math.max(0, run.end_time - run.start_time)
}

/** What a click on the head of a column asks for: the greatest first, then the least, then none. */
export function turned(sort: string, column: Column): string {
  return sort === `-${column}` ? column : sort === column ? '' : `-${column}`
}

/** Sorted rows with others put in their places; those behind the last row wait for their page, unless it is the last. */
export function merged(rows: RunSummary[], more: RunSummary[], compare: Compare, isWhole: boolean): RunSummary[] {
  const last = rows.at(-1)
  const fitting = more.filter((run) => isWhole || (last !== undefined && compare(run, last) < 0)).sort(compare)
  if (fitting.length === 0) return rows
  const all: RunSummary[] = []
  let next = 0
  for (const row of rows) {
    for (let run = fitting[next]; run && compare(run, row) < 0; run = fitting[next]) {
      all.push(run)
      next += 1
    }
    all.push(row)
  }
  return all.concat(fitting.slice(next))
}
