// Figures of a flow's latest runs. Pure.
import type { RunSummary } from '../../api/types'
import { TERMINAL } from '../../api/types'

export type Success = { percent: number; judged: number; good: number }

/** A cancelled run neither succeeded nor failed: it is not part of the rate. Null: there is nothing to judge. */
export function successOf(ended: Record<string, number>): Success | null {
  const good = ended.COMPLETED ?? 0
  const judged = good + (ended.FAILED ?? 0)
  if (judged === 0) return null
  return { percent: Math.round((good / judged) * 100), judged, good }
}

export type TrendBar = { run: RunSummary; seconds: number; share: number }
export type Trend = {
  bars: TrendBar[]
  success: Success | null
  median: number | null
  slow: number | null
  most: number
}

/** Oldest first. `share`: of the longest one, so that a bar that is nothing can still be seen. */
export function trendOf(runs: RunSummary[], now: number): Trend {
  const inOrder = runs.toSorted((one, other) => one.submitted_at - other.submitted_at)
  const timed = inOrder.map((run) => ({ run, seconds: secondsOf(run, now) }))
  const most = Math.max(0, ...timed.map((one) => one.seconds))
  const ended: Record<string, number> = {}
  for (const { status } of runs) if (TERMINAL.has(status)) ended[status] = (ended[status] ?? 0) + 1
  const completed = timed.filter(({ run }) => run.status === 'COMPLETED').map((one) => one.seconds)
  return {
    bars: timed.map((one) => ({ ...one, share: most === 0 ? 0 : one.seconds / most })),
    success: successOf(ended),
    median: percentile(completed, 0.5),
    slow: percentile(completed, 0.95),
    most,
  }
}

function secondsOf(run: RunSummary, now: number): number {
  return run.start_time === null ? 0 : Math.max(0, (run.end_time ?? now) - run.start_time)
}

/** The smallest value that this share of all does not exceed. */
export function percentile(values: number[], share: number): number | null {
  if (values.length === 0) return null
  const sorted = values.toSorted((one, other) => one - other)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? null
}
