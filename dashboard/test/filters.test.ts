import './page'
import { expect, test } from 'vitest'
import type { RunSummary, Worker } from '../src/api/types'
import { successOf } from '../src/pages/flows/figures'
import { filtersIn, fits, standing, toggled, unknownIn } from '../src/pages/runs/filters'
import { reasonOf } from '../src/pages/runs/why'

const run = (more: Partial<RunSummary>) =>
  ({ run_id: 'a', flow_name: 'f', tag: 'gpu', tags: [], ...more }) as RunSummary
const worker = (more: Partial<Worker>) => ({ worker_id: 'w', state: 'IDLE', tags: ['gpu'], ...more }) as Worker
const only = (status: string) => filtersIn(new URLSearchParams({ status }))

test('several statuses are a filter, and an unknown one leaves the filter out', () => {
  expect(only('FAILED,WAITING').status).toBe('FAILED,WAITING')
  expect(only('FAILED,LOST').status).toBe('')
  expect(unknownIn(new URLSearchParams({ status: 'FAILED,LOST' }))).toEqual(['status=FAILED,LOST'])
})

test('a status is added and taken away, in the order of the buttons', () => {
  expect(toggled('', 'FAILED')).toBe('FAILED')
  expect(toggled('FAILED', 'PENDING')).toBe('PENDING,FAILED')
  expect(toggled('PENDING,FAILED', 'PENDING')).toBe('FAILED')
  expect(toggled('RUNNING', 'WAITING')).toBe('EXECUTING')
})

test('a run that waits is not one that executes, and both are running', () => {
  const waits = run({ status: 'RUNNING', waiting_for: ['release'] })
  const works = run({ status: 'RUNNING' })
  expect(['WAITING', 'EXECUTING', 'RUNNING'].map((one) => fits(waits, only(one), 0))).toEqual([true, false, true])
  expect(['WAITING', 'EXECUTING', 'RUNNING'].map((one) => fits(works, only(one), 0))).toEqual([false, true, true])
  expect(fits(run({ status: 'FAILED' }), only('PENDING,FAILED'), 0)).toBe(true)
  expect(standing(waits)).toBe('WAITING')
})

test('a run that makes no progress has a reason', () => {
  const pending = run({ status: 'PENDING' })
  expect(reasonOf(pending, null)).toBe('')
  expect(reasonOf(pending, [])).toBe('No live worker serves the tag gpu')
  expect(reasonOf(pending, [worker({ state: 'DISCONNECTED' })])).toBe('No live worker serves the tag gpu')
  expect(reasonOf(pending, [worker({ draining: true })])).toBe('All workers of the tag gpu are draining')
  expect(reasonOf(pending, [worker({ free_slots: 0 })])).toBe('All workers of the tag gpu are busy')
  expect(reasonOf(pending, [worker({ free_slots: 1 })])).toBe('')
  expect(reasonOf(run({ status: 'RUNNING', waiting_for: ['sleep:x', 'release'] }), [])).toBe(
    'Waiting for an answer: release',
  )
  expect(reasonOf(run({ status: 'RUNNING', waiting_for: ['sleep:x'] }), [])).toBe('Sleeping')
  expect(reasonOf(run({ status: 'FAILED' }), [])).toBe('')
})

test('a cancelled run is not part of the success rate', () => {
  expect(successOf({ COMPLETED: 3, FAILED: 1, CANCELLED: 6 })).toEqual({ percent: 75, judged: 4, good: 3 })
  expect(successOf({ CANCELLED: 2 })).toBeNull()
})
