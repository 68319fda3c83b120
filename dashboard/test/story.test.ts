import { expect, test } from 'vitest'
import type { ExecutionEvent } from '../src/api/executions'
import { momentOf, standingAt, storyOf, withIterations, withLoss } from '../src/pages/run/story'

const START = Date.parse('2026-01-01T00:00:00Z')
let seq = 0
const event = (at: number, type: string, nodeId?: string, attempt?: number): ExecutionEvent => {
  seq += 1
  return {
    eventId: String(seq),
    seq,
    type,
    occurredAt: new Date(START + at * 1000).toISOString(),
    actor: { kind: 'system' },
    payload: { nodeId, attempt },
  }
}
const second = (at: number) => START / 1000 + at

const told = [
  event(0, 'EXECUTION_CREATED'),
  event(1, 'NODE_CREATED', 'a'),
  event(1, 'NODE_CREATED', 'b'),
  event(2, 'NODE_STARTED', 'a', 1),
  event(3, 'NODE_FAIL_REPORTED', 'a'),
  event(4, 'NODE_STARTED', 'a', 2),
  event(5, 'NODE_SUCCEEDED', 'a'),
  event(5, 'NODE_WAITING', 'b'),
  event(8, 'NODE_RESUMED', 'b'),
  event(9, 'NODE_SUCCEEDED', 'b'),
]

test('attempts and waits become stretches', () => {
  const { nodes, stretches } = storyOf(told)
  expect(nodes).toEqual(['a', 'b'])
  expect(stretches.get('a')).toEqual([
    { kind: 'attempt', from: second(2), to: second(3), attempt: 1, status: 'FAILED' },
    { kind: 'attempt', from: second(4), to: second(5), attempt: 2, status: 'SUCCEEDED' },
  ])
  expect(stretches.get('b')).toEqual([{ kind: 'wait', from: second(5), to: second(8), attempt: 0, status: 'WAITING' }])
})

test('everything stands as it stood at a moment, also between events of one instant', () => {
  const story = storyOf(told)
  const at = (time: number) => Object.fromEntries(standingAt(story, momentOf(second(time), told)))
  expect(at(0.5)).toEqual({ a: 'IDLE', b: 'IDLE' })
  expect(at(2.5)).toEqual({ a: 'RUNNING', b: 'IDLE' })
  expect(at(3.5)).toEqual({ a: 'FAILED', b: 'IDLE' })
  expect(at(6)).toEqual({ a: 'SUCCEEDED', b: 'WAITING' })
  const between = { at: second(5), seq: (told[6] as ExecutionEvent).seq }
  expect(Object.fromEntries(standingAt(story, between))).toEqual({ a: 'SUCCEEDED', b: 'IDLE' })
})

test('iterations stand with the loop they are of', () => {
  expect(withIterations(['a', 'loop', 'end', 'loop[0]', 'in', 'loop[1]', 'in[0][1]'])).toEqual([
    'a',
    'loop',
    'loop[0]',
    'loop[1]',
    'end',
    'in',
    'in[0][1]',
  ])
})

test('what was under way when the worker was lost ends there, and is no attempt that runs', () => {
  const begun = {
    eventId: '1',
    seq: 1,
    type: 'NODE_STARTED',
    occurredAt: '2026-01-01T00:00:00Z',
    actor: { kind: 'worker' },
    payload: { nodeId: 'a', attempt: 1 },
  }
  const at = Date.parse(begun.occurredAt) / 1000
  const lost = withLoss(storyOf([begun]), at + 5)
  expect(lost.stretches.get('a')).toEqual([{ kind: 'attempt', from: at, to: at + 5, attempt: 1, status: 'LOST' }])
  const again = storyOf([
    begun,
    { ...begun, eventId: '2', seq: 2, occurredAt: '2026-01-01T00:00:09Z', payload: { nodeId: 'a', attempt: 2 } },
  ])
  expect(again.stretches.get('a')?.map((one) => [one.status, one.to])).toEqual([
    ['LOST', at + 9],
    ['RUNNING', null],
  ])
})
