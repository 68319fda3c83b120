import { expect, test } from 'vitest'
import type { Run, RunGraph } from '../src/api/types'
import { beginnings, type From, isTakenOver, type Past, splitOf } from '../src/pages/run/fork'
import type { Change } from '../src/pages/run/story'

const runOf = (tasks: Record<string, string>, more: Partial<Run> = {}): Run =>
  ({ status: 'COMPLETED', tasks, ...more }) as unknown as Run
const graphOf = (edges: Record<string, string[]>, ordered = true): RunGraph => ({
  run_id: 'r',
  nodes: Object.entries(edges).map(([id, after]) => ({ id, after, join: 'all_success' })),
  ordered,
})
const all = (names: string[], state = 'SUCCEEDED') => Object.fromEntries(names.map((name) => [name, state]))
const split = (past: Past, task: string) => splitOf(past, { from: 'task', task })

const DIAMOND = { fetch: [], left: ['fetch'], right: ['fetch'], join: ['left', 'right'], alone: [] }
const diamond: Past = { run: runOf(all(Object.keys(DIAMOND))), graph: graphOf(DIAMOND), changes: [] }

test('a task and what comes after it is executed again, near and far', () => {
  expect(split(diamond, 'fetch')).toEqual({ again: ['fetch', 'left', 'right', 'join'], kept: ['alone'] })
  expect(split(diamond, 'left')).toEqual({ again: ['left', 'join'], kept: ['fetch', 'right', 'alone'] })
  expect(split(diamond, 'join')).toEqual({ again: ['join'], kept: ['fetch', 'left', 'right', 'alone'] })
  expect(beginnings(diamond)).toEqual(['fetch', 'left', 'right', 'join', 'alone'])
})

test('a circle ends', () => {
  const past = { ...diamond, run: runOf(all(['a', 'b', 'c'])), graph: graphOf({ a: [], b: ['a', 'c'], c: ['b'] }) }
  expect(split(past, 'c')).toEqual({ again: ['b', 'c'], kept: ['a'] })
})

test('what had not succeeded is executed too, and what was not kept', () => {
  const tasks = { fetch: 'SUCCEEDED', left: 'FAILED', right: 'SUCCEEDED', join: 'CANCELLED', alone: 'SUCCEEDED' }
  const records = { alone: { kept: 'too_large' }, fetch: { kept: 'stored' }, right: { kept: 'referenced' } }
  const past = { ...diamond, run: runOf(tasks, { status: 'FAILED', task_records: records as never }) }
  expect(split(past, 'right')).toEqual({ again: ['left', 'right', 'join', 'alone'], kept: ['fetch'] })
  expect(splitOf(past, { from: 'failed' })).toEqual({ again: ['left', 'join', 'alone'], kept: ['fetch', 'right'] })
  expect(splitOf(past, { from: 'start' })?.kept).toEqual([])
})

const log = (...told: string[]): Change[] =>
  told.map((one, index) => {
    const [node, status] = one.split(' ') as [string, string]
    return { seq: index + 1, at: 0, node, status }
  })

const LOOP = log(
  ...[
    'load IDLE',
    'step IDLE',
    'save IDLE',
    'load RUNNING',
    'load SUCCEEDED',
    'step RUNNING',
    'step[0] RUNNING',
    'step[0] SUCCEEDED',
  ],
  ...['step[1] RUNNING', 'step[1] SUCCEEDED', 'step SUCCEEDED', 'save RUNNING', 'save SUCCEEDED'],
)
const looped: Past = {
  run: runOf({ ...all(['load', 'step', 'save', 'step[0]', 'step[1]']), never: 'PENDING' }),
  graph: graphOf({ load: [], step: [], save: [], never: [] }, false),
  changes: LOOP,
}

test('without edges the order of the log counts, down to an iteration', () => {
  expect(split(looped, 'step')).toEqual({ again: ['step', 'save', 'step[0]', 'step[1]'], kept: ['load'] })
  expect(split(looped, 'step[1]')).toEqual({ again: ['step', 'save', 'step[1]'], kept: ['load', 'step[0]'] })
  expect(split(looped, 'save')).toEqual({ again: ['save'], kept: ['load', 'step', 'step[0]', 'step[1]'] })
  expect(beginnings(looped)).toEqual(['load', 'step', 'save', 'step[0]', 'step[1]'])
})

test('a loop of one task is no graph of one task', () => {
  const changes = log('x RUNNING', 'x[0] SUCCEEDED', 'x[1] SUCCEEDED', 'x SUCCEEDED')
  const past: Past = { run: runOf(all(['x', 'x[0]', 'x[1]'])), graph: graphOf({ x: [] }), changes }
  expect(split(past, 'x[1]')).toEqual({ again: ['x', 'x[1]'], kept: ['x[0]'] })
})

test('where neither edges nor events can be had, nothing is claimed', () => {
  const past = { ...looped, changes: [] }
  expect(split(past, 'step')).toBeNull()
  const failed: From = { from: 'failed' }
  expect(splitOf(past, failed)?.again).toEqual([])
  expect(beginnings({ ...past, graph: null })).toEqual([])
  expect(split({ ...looped, graph: null }, 'step')).toBeNull()
})

test('what a run began with was made before it was submitted', () => {
  const records = { a: { ended_at: 9 }, b: { ended_at: 11 }, c: { ended_at: null } }
  const run = runOf(
    { ...all(['a', 'b']), c: 'PENDING' },
    { retry_of: 'old', submitted_at: 10, task_records: records as never },
  )
  expect(['a', 'b', 'c'].filter((name) => isTakenOver(run, name))).toEqual(['a'])
  expect(isTakenOver({ ...run, retry_of: undefined } as Run, 'a')).toBe(false)
})
