import { afterEach, beforeEach, expect, test } from 'vitest'
import type { ExecutionEvent } from '../src/api/executions'
import type { Watching } from '../src/pages/run/use-run'
import { begin, finish, type Gateway, later, pass, refused } from './gateway'

let gateway: Gateway
let watching: Watching

beforeEach(async () => {
  gateway = begin()
  const { startNews } = await import('../src/live/news')
  const module = await import('../src/pages/run/use-run')
  watching = new module.Watching('a')
  startNews()
})
afterEach(finish)

const event = (seq: number, type = 'NODE_STARTED') => ({ seq, type }) as ExecutionEvent
const events = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, more) => event(from + more))
const seqs = () => watching.shown.get().events.map((one) => one.seq)
const news = (runs: unknown[], name = 'runs') =>
  gateway.last.say('runs', name, { runs, gone: [], counts: {}, minute: {}, ts: 0 }, 'p')

test('events are read in pages and then followed from the last of them', async () => {
  const pages = [
    { events: events(1, 3), hasMore: true },
    { events: events(4, 5), hasMore: false },
  ]
  gateway.answer = () => pages.shift()
  watching.start()
  await pass(0)
  await pass(25)
  expect(gateway.asked.map(({ path, query }) => [path, query.afterSeq])).toEqual([
    ['/executions/a/events', '0'],
    ['/executions/a/events', '3'],
  ])
  expect(gateway.last.topics).toEqual(['runs', 'lists', 'run:a', 'events:a'])
  expect(gateway.last.places).toEqual(['events:a~5'])
  gateway.last.say('events:a', 'message', event(6), '6')
  gateway.last.say('events:a', 'message', event(7), '7')
  await pass(0)
  expect(seqs()).toEqual([1, 2, 3, 4, 5, 6, 7])
  gateway.last.breakOff()
  await pass(1000)
  expect(gateway.last.places).toEqual(['events:a~7'])
})

test('after a reset there are the events that follow it, and no others', async () => {
  gateway.answer = () => ({ events: events(1, 3), hasMore: false })
  watching.start()
  await pass(0)
  await pass(25)
  gateway.last.say('events:a', 'reset', {}, '0')
  gateway.last.say('events:a', 'message', event(1, 'EXECUTION_CREATED'), '1')
  await pass(0)
  expect(watching.shown.get().events).toEqual([event(1, 'EXECUTION_CREATED')])
  gateway.last.breakOff()
  await pass(1000)
  expect(gateway.last.places).toEqual(['events:a~1'])
})

test('events from the first on are not put behind those that there were', async () => {
  gateway.answer = () => ({ events: events(1, 3), hasMore: false })
  watching.start()
  await pass(0)
  await pass(25)
  gateway.last.say('events:a', 'refused', { status: 422, message: 'beyond the last event' })
  await pass(0)
  await pass(25)
  gateway.last.say('events:a', 'message', event(1), '1')
  gateway.last.say('events:a', 'message', event(2), '2')
  await pass(0)
  expect(seqs()).toEqual([1, 2])
})

test('the snapshot is the last that was told, also when it is of before', async () => {
  gateway.answer = () => ({ events: [], hasMore: false })
  watching.start()
  await pass(25)
  for (const status of ['RUNNING', 'COMPLETED', 'RUNNING']) {
    gateway.last.say('run:a', 'snapshot', { snapshot: { run_id: 'a', status } }, 's')
  }
  gateway.last.say('run:a', 'heartbeat', {})
  await pass(0)
  expect(watching.shown.get().run?.status).toBe('RUNNING')
})

test('a run that there is not is an error, until there is a snapshot', async () => {
  gateway.answer = () => refused(404)
  watching.start()
  await pass(25)
  gateway.last.say('run:a', 'refused', { status: 404, message: 'no such run' })
  await pass(0)
  expect(watching.shown.get()).toMatchObject({ run: null, hasEvents: false, error: { status: 404 } })
  expect(gateway.last.topics).not.toContain('events:a')
})

test('what could not be answered comes over the connection instead', async () => {
  gateway.answer = () => refused(503)
  watching.start()
  await pass(0)
  await pass(25)
  expect(gateway.last.topics).toContain('events:a')
  expect(gateway.last.places).toEqual([])
  gateway.last.say('events:a', 'message', event(1), '1')
  await pass(0)
  expect([seqs(), watching.shown.get().hasEvents]).toEqual([[1], true])
})

test('of a run that is over the tags can still change; of one that runs they come with its snapshot', async () => {
  gateway.answer = () => ({ events: [], hasMore: false })
  watching.start()
  await pass(25)
  const tags = () => watching.shown.get().run?.tags
  gateway.last.say('run:a', 'snapshot', { snapshot: { run_id: 'a', status: 'RUNNING', tags: ['x'] } }, 's1')
  news([{ run_id: 'a', tags: ['early'] }])
  await pass(0)
  expect(tags()).toEqual(['x'])
  gateway.last.say('run:a', 'snapshot', { snapshot: { run_id: 'a', status: 'COMPLETED', tags: ['x'] } }, 's2')
  gateway.last.say('run:a', 'over', null)
  news([{ run_id: 'b', tags: ['of another'] }])
  news([], 'reset')
  await pass(0)
  expect(tags()).toEqual(['x'])
  news([{ run_id: 'a', tags: ['x', 'y'] }])
  await pass(0)
  expect([tags(), watching.shown.get().run?.status]).toEqual([['x', 'y'], 'COMPLETED'])
})

test('who leaves and comes back has every event once, also when an answer was under way', async () => {
  const slow = later<unknown>()
  gateway.answer = () => slow.answer
  watching.start()()
  gateway.answer = (_, { afterSeq }) => ({ events: events(Number(afterSeq) + 1, 2), hasMore: false })
  watching.start()
  await pass(0)
  await pass(25)
  gateway.last.say('events:a', 'message', event(3), '3')
  await pass(0)
  slow.give({ events: events(1, 1), hasMore: true })
  await pass(25)
  expect(seqs()).toEqual([1, 2, 3])
  expect([gateway.asked.length, gateway.last.left]).toEqual([2, false])
})

test('who has left follows nothing, whenever the answer comes', async () => {
  const { answer, give } = later<unknown>()
  gateway.answer = () => answer
  const stop = watching.start()
  await pass(25)
  stop()
  stop()
  give({ events: events(1, 2), hasMore: true })
  await pass(100)
  expect(gateway.last.topics).toEqual(['runs', 'lists'])
  expect(gateway.asked.length).toBe(1)
})
