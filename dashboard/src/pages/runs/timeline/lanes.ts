// Runs of a window of time as bars, one row for each flow. Pure.
import type { RunSummary } from '../../../api/types'
import { standing } from '../filters'

/** In seconds; the words of the address. */
export const WINDOWS: Record<string, number> = { hour: 3600, quarter: 6 * 3600, day: 86_400 }
export const LANES_MAX = 4
/** Bars of a flow where each run has the same width. */
export const GRID_RUNS = 30

/** `left` and `width` in percent of the window. `height`: in percent of the longest, where the width says nothing. */
export type Bar = { run: RunSummary; left: number; width: number; lane: number }
export type Row = { flow: string; bars: Bar[]; lanes: number; failed: number }

const WIDTH_MIN = 0.35

/** By flow, in the order of their names; bars from the oldest on. Bars that overlap are in different lanes. */
export function rowsOf(runs: Iterable<RunSummary>, from: number, to: number): Row[] {
  return flowsOf(runs).map(([flow, own]) => {
    const ends: number[] = []
    const bars: Bar[] = []
    for (const run of own) {
      const bar = barOf(run, from, to)
      if (bar === null) continue
      const free = ends.findIndex((end) => end <= bar.left)
      bar.lane = free >= 0 ? free : Math.min(ends.length, LANES_MAX - 1)
      ends[bar.lane] = bar.left + bar.width
      bars.push(bar)
    }
    return rowOf(flow, bars, Math.max(1, ends.length))
  })
}

/** The latest runs of each flow, one beside the other. Their heights are in `heightsOf`. */
export function gridOf(runs: Iterable<RunSummary>): Row[] {
  const width = 100 / GRID_RUNS
  return flowsOf(runs).map(([flow, own]) => {
    const latest = own.slice(-GRID_RUNS)
    const before = GRID_RUNS - latest.length
    const bars = latest.map((run, place) => ({ run, left: (before + place) * width, width, lane: 0 }))
    return rowOf(flow, bars, 1)
  })
}

/** How long each run took, in percent of the longest one of its flow. */
export function heightsOf(bars: Bar[], now: number): number[] {
  const took = bars.map(({ run }) =>
    run.start_time === null ? 0 : Math.max(0, (run.end_time ?? now) - run.start_time),
  )
  const longest = Math.max(...took, 0.001)
  return took.map((seconds) => Math.max(12, (seconds / longest) * 100))
}

function rowOf(flow: string, bars: Bar[], lanes: number): Row {
  return { flow, bars, lanes, failed: bars.filter(({ run }) => run.status === 'FAILED').length }
}

function flowsOf(runs: Iterable<RunSummary>): [string, RunSummary[]][] {
  const flows = new Map<string, RunSummary[]>()
  for (const run of [...runs].sort((a, b) => a.submitted_at - b.submitted_at)) {
    const own = flows.get(run.flow_name)
    if (own) own.push(run)
    else flows.set(run.flow_name, [run])
  }
  return [...flows].sort(([a], [b]) => a.localeCompare(b))
}

/** From its start, or its submission while it has none, to its end or now. `null`: it ended before. */
function barOf(run: RunSummary, from: number, to: number): Bar | null {
  const begin = run.start_time ?? run.submitted_at
  const end = run.end_time ?? to
  if (end < from || begin > to) return null
  const place = (at: number) => ((Math.min(Math.max(at, from), to) - from) / (to - from)) * 100
  const width = Math.max(WIDTH_MIN, place(end) - place(begin))
  return { run, left: Math.min(place(begin), 100 - width), width, lane: 0 }
}

/** Instants for the axis: whole parts of the window. */
export function ticksOf(from: number, to: number): number[] {
  const parts = 6
  return Array.from({ length: parts + 1 }, (_, number) => from + ((to - from) * number) / parts)
}

export function stateOf(run: RunSummary): string {
  return standing(run)
}
