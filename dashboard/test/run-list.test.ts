import { expect, test } from 'vitest'
import type { RunSummary } from '../src/api/types'
import { asked, type Filters, fits, NO_FILTERS } from '../src/pages/runs/filters'
import { FRESH_MAX, KEPT_AT_TOP, LEFT_MAX, RunList } from '../src/pages/runs/run-list'

const run = (run_id: string, more: Partial<RunSummary> = {}): RunSummary =>
  ({
    run_id,
    flow_name: 'f',
    tag: 't',
    tags: [],
    status: 'RUNNING',
    updated_at: 10,
    worker_id: null,
    error: null,
    ...more,
  }) as RunSummary
const ids = (list: RunList) => list.rows.map((one) => one.run_id).join('')
const all = () => true
const none: Filters = NO_FILTERS

test('at the top a changed run comes to the front, and none is there twice', () => {
  const list = new RunList()
  list.append([run('a'), run('b'), run('c')])
  list.change([run('c'), run('d')], [], all, true)
  expect(ids(list)).toBe('dcab')
  list.append([run('b'), run('e')])
  expect(ids(list)).toBe('dcabe')
})

test('further down nothing moves: known ones change in place, others are counted', () => {
  const list = new RunList()
  list.append([run('a'), run('b')])
  list.change([run('b', { status: 'FAILED' }), run('n')], [], all, false)
  expect(ids(list)).toBe('ab')
  expect(list.rows[1]?.status).toBe('FAILED')
  expect(list.fresh.size).toBe(1)
  list.showFresh()
  expect(ids(list)).toBe('nab')
  expect(list.fresh.size).toBe(0)
})

test('what waits on top is shown in the order of its last changes, as the server has it', () => {
  const list = new RunList()
  list.append([run('a')])
  list.change([run('x'), run('y')], [], all, false)
  list.change([run('x', { status: 'COMPLETED' })], [], all, false)
  list.showFresh()
  expect(ids(list)).toBe('xya')
  expect(list.rows[0]?.status).toBe('COMPLETED')
})

test('what no longer fits or is gone leaves, also from what waits on top', () => {
  const list = new RunList()
  list.append([run('a'), run('b')])
  list.change([run('x')], [], all, false)
  list.change([run('a'), run('x')], ['b'], () => false, false)
  expect(ids(list)).toBe('')
  expect(list.fresh.size).toBe(0)
})

test('a list that goes on by itself all day lets its far end go, and takes it again', () => {
  const list = new RunList()
  for (let number = 0; number <= 2 * KEPT_AT_TOP; number += 1) list.change([run(`r${number}`)], [], all, true)
  expect(list.trim()).toBe(true)
  expect(list.rows.length).toBe(KEPT_AT_TOP)
  expect(list.rows[0]?.run_id).toBe(`r${2 * KEPT_AT_TOP}`)
  expect(list.trim()).toBe(false)
  // Read from the top again: what is there is passed over, what was let go comes back.
  list.append([run(`r${2 * KEPT_AT_TOP}`), run('r5')])
  expect(list.rows.length).toBe(KEPT_AT_TOP + 1)
  expect(list.rows.at(-1)?.run_id).toBe('r5')
})

test('what comes while nobody looks at the top is kept up to a bound', () => {
  const list = new RunList()
  for (let number = 0; number < FRESH_MAX; number += 1) list.change([run(`r${number}`)], [], all, false)
  expect(list.overrun).toBe(false)
  list.change([run('r0'), run('one too many')], [], all, false)
  expect([list.fresh.size, list.overrun]).toEqual([FRESH_MAX, true])
})

test('what left while a page was under way is remembered up to a bound', () => {
  const list = new RunList()
  list.expectPage()
  for (let number = 0; number <= LEFT_MAX; number += 1) list.change([], [`r${number}`], all, true)
  list.change([], ['r1'], all, true)
  list.append([run('r0'), run('r1'), run(`r${LEFT_MAX}`)])
  expect(ids(list)).toBe('r0')
})

test('a run fits as the server would decide it', () => {
  const one = run('abc', {
    status: 'FAILED',
    flow_name: 'nightly',
    tags: ['Blue'],
    error: 'disk FULL',
    updated_at: 1000,
  })
  expect(fits(one, { ...none, status: 'FAILED', flow: 'nightly', tag: 't' }, 0)).toBe(true)
  expect(fits(one, { ...none, status: 'RUNNING' }, 0)).toBe(false)
  expect(fits(one, { ...none, flow: 'night' }, 0)).toBe(false)
  for (const q of ['ABC', 'night', 'blue', 'full']) expect(fits(one, { ...none, q }, 0)).toBe(true)
  expect(fits(one, { ...none, q: 'green' }, 0)).toBe(false)
  expect(fits(one, { ...none, since: 'hour' }, 1000 + 3599)).toBe(true)
  expect(fits(one, { ...none, since: 'hour' }, 1000 + 3600)).toBe(false)
  expect(asked({ ...none, since: 'hour' }, 5000)).toMatchObject({ updated_after: 1400, status: undefined })
})
