import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Worker } from '../src/api/types'
import { begin, finish, type Gateway, pass } from './gateway'

let gateway: Gateway
let workers: typeof import('../src/pages/workers/use-workers')

beforeEach(async () => {
  gateway = begin()
  workers = await import('../src/pages/workers/use-workers')
})
afterEach(finish)

const worker = (worker_id: string, state = 'IDLE') => ({ worker_id, state }) as Worker
const say = async (some: Worker[], gone: string[] = [], all = false) => {
  gateway.last.say('workers', 'workers', { workers: some, gone, all })
  await pass(0)
}
const known = () => workers.known.get() && [...(workers.known.get()?.values() ?? [])].map((one) => one.worker_id)

test('everybody first, then who changed or is gone; after a loss everybody again', async () => {
  workers.look()
  await pass(25)
  expect([known(), workers.awaited.get()]).toEqual([null, true])
  await say([worker('a'), worker('b')], [], true)
  expect([known(), workers.awaited.get()]).toEqual([['a', 'b'], false])
  await say([worker('b', 'RUNNING'), worker('c')], ['a', 'unknown'])
  expect(known()).toEqual(['b', 'c'])
  expect(workers.known.get()?.get('b')?.state).toBe('RUNNING')
  gateway.last.breakOff()
  await pass(1000)
  expect([known(), gateway.last.places]).toEqual([['b', 'c'], []])
  await say([worker('d')], [], true)
  expect(known()).toEqual(['d'])
})

test('however many look it is told once, and forgotten when the last has left', async () => {
  const [one, two] = [workers.look(), workers.look()]
  await pass(25)
  expect([gateway.connections.length, gateway.last.topics]).toEqual([1, ['workers']])
  await say([worker('a')], [], true)
  one()
  await pass(25)
  expect([known(), gateway.last.left]).toEqual([['a'], false])
  two()
  await pass(25)
  expect([known(), gateway.last.left, workers.awaited.get()]).toEqual([null, true, true])
})

test('it is not waited for when it is refused, when the connection is lost, and not for long', async () => {
  const leave = workers.look()
  await pass(25)
  gateway.last.say('workers', 'refused', { status: 403, message: 'not for you' })
  await pass(0)
  expect([workers.awaited.get(), workers.refused.get()?.status]).toEqual([false, 403])
  workers.ask()
  await pass(25)
  expect([workers.refused.get(), gateway.last.topics]).toEqual([null, ['workers']])
  leave()
  workers.look()
  await pass(2999)
  expect(workers.awaited.get()).toBe(true)
  await pass(1)
  expect(workers.awaited.get()).toBe(false)
})
