import './page'
import { expect, test } from 'vitest'
import type { RunSummary } from '../src/api/types'
import { GRID_RUNS, gridOf, heightsOf, LANES_MAX, rowsOf, ticksOf } from '../src/pages/runs/timeline/lanes'

const run = (run_id: string, start: number | null, end: number | null, more: Partial<RunSummary> = {}): RunSummary =>
  ({
    run_id,
    flow_name: 'f',
    submitted_at: start ?? 0,
    start_time: start,
    end_time: end,
    status: end === null ? 'RUNNING' : 'COMPLETED',
    ...more,
  }) as RunSummary
const bars = (runs: RunSummary[], from = 0, to = 100) => rowsOf(runs, from, to)[0]?.bars ?? []

test('a bar begins at the start of its run and ends at its end, or now', () => {
  const [one, two] = bars([run('a', 10, 30), run('b', 50, null)])
  expect([one?.left, one?.width, two?.left, two?.width]).toEqual([10, 20, 50, 50])
})

test('what ended before the window has no bar, what began before it is cut', () => {
  expect(bars([run('a', 1, 9), run('b', 5, 20)], 10, 110).map((bar) => [bar.run.run_id, bar.left, bar.width])).toEqual([
    ['b', 0, 10],
  ])
})

test('a run that has not started is a bar from its submission', () => {
  expect(bars([run('a', null, null, { submitted_at: 40, status: 'PENDING' })])[0]).toMatchObject({
    left: 40,
    width: 60,
  })
})

test('runs at the same time are in lanes, and there are not more than fit', () => {
  const runs = Array.from({ length: LANES_MAX + 3 }, (_, number) => run(`r${number}`, 10 + number, 90))
  expect(bars(runs).map((bar) => bar.lane)).toEqual([0, 1, 2, 3, 3, 3, 3])
  expect(bars([run('a', 0, 10), run('b', 20, 30)]).map((bar) => bar.lane)).toEqual([0, 0])
  expect(rowsOf(runs, 0, 100)[0]?.lanes).toBe(LANES_MAX)
})

test('flows are in the order of their names, with their failed runs', () => {
  const runs = [run('a', 1, 2, { flow_name: 'z' }), run('b', 1, 2, { flow_name: 'b', status: 'FAILED' })]
  expect(rowsOf(runs, 0, 10).map((row) => [row.flow, row.failed])).toEqual([
    ['b', 1],
    ['z', 0],
  ])
})

test('run by run, the latest stand at the right, as high as they took long', () => {
  const runs = Array.from({ length: GRID_RUNS + 5 }, (_, number) => run(`r${number}`, number, number + 1))
  const [row] = gridOf(runs)
  expect([row?.bars.length, row?.bars[0]?.run.run_id]).toEqual([GRID_RUNS, 'r5'])
  const [few] = gridOf([run('a', 0, 5), run('b', 10, 20)])
  expect(few?.bars.at(-1)?.left).toBeCloseTo(100 - 100 / GRID_RUNS)
  expect(heightsOf(few?.bars ?? [], 0)).toEqual([50, 100])
})

test('the axis has both ends of the window', () => {
  const ticks = ticksOf(0, 60)
  expect([ticks[0], ticks.at(-1), ticks.length]).toEqual([0, 60, 7])
})
