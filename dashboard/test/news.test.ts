import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Counts, Minute, RunSummary, RunsNews } from '../src/api/types'
import { begin, finish, type Gateway, pass } from './gateway'

let gateway: Gateway
let news: typeof import('../src/live/news')

beforeEach(async () => {
  gateway = begin()
  vi.setSystemTime(1_000_000)
  news = await import('../src/live/news')
  news.startNews()
  await pass(25)
})
afterEach(finish)

const batch = (more: Partial<RunsNews> = {}): RunsNews => ({
  runs: [],
  gone: [],
  counts: { RUNNING: 3 } as Counts,
  minute: { at: 60 } as Minute,
  ts: 1000,
  ...more,
})
const run = (run_id: string) => ({ run_id }) as RunSummary

test('sums, the clock and the standing are those of the last batch', async () => {
  expect([news.counts.get(), news.minute.get(), news.standing.get().ready]).toEqual([null, null, true])
  const standing = { ready: false, reasons: ['no broker'] }
  gateway.last.say('runs', 'runs', batch({ ts: 1042.5, standing }), 'p1')
  await pass(0)
  expect(news.counts.get()).toEqual({ RUNNING: 3 })
  expect(news.minute.get()).toEqual({ at: 60 })
  expect(news.clockAhead.get()).toBeCloseTo(42.5, 1)
  expect(news.standing.get()).toEqual(standing)
  gateway.last.say('runs', 'runs', batch({ counts: { RUNNING: 4 } as Counts }), 'p2')
  await pass(0)
  expect(news.counts.get()).toEqual({ RUNNING: 4 })
  expect(news.standing.get()).toEqual(standing)
})

test('who listens hears of changed and gone runs and of a reset, and nothing of sums alone', async () => {
  const heard: unknown[] = []
  const stop = news.onNews((one) => heard.push(one))
  gateway.last.say('runs', 'runs', batch({ runs: [run('a')], gone: ['b'] }), 'p1')
  gateway.last.say('runs', 'runs', batch(), 'p2')
  gateway.last.say('runs', 'runs', batch({ gone: ['c'] }), 'p3')
  gateway.last.say('runs', 'reset', batch(), 'p9')
  await pass(0)
  expect(heard).toEqual([{ changed: [run('a')], gone: ['b'] }, { changed: [], gone: ['c'] }, 'reset'])
  stop()
  gateway.last.say('runs', 'reset', batch(), 'p10')
  await pass(0)
  expect(heard.length).toBe(3)
})

test('after a loss it goes on at its place, and what was wrong before is not said any more', async () => {
  gateway.last.say('runs', 'runs', batch({ standing: { ready: false, reasons: ['x'] } }), 'p1')
  gateway.last.say('lists', 'lists', { changed: [] }, 'l1')
  await pass(0)
  gateway.last.breakOff()
  await pass(0)
  expect(news.connection.get().state).toBe('lost')
  expect(news.standing.get().ready).toBe(false)
  await pass(1000)
  expect(gateway.last.places).toEqual(['runs~p1', 'lists~l1'])
  expect(news.connection.get()).toEqual({ state: 'open', error: null })
  expect(news.standing.get()).toEqual({ ready: true, reasons: [] })
})

test('when its place is of no use any more everything is read again', async () => {
  const heard: unknown[] = []
  news.onNews((one) => heard.push(one))
  news.onChanged('wheels', () => heard.push('wheels'))
  news.onChanged('schedules', () => heard.push('schedules'))
  gateway.last.say('runs', 'runs', batch(), 'p1')
  gateway.last.say('lists', 'lists', { changed: [] }, 'l1')
  await pass(0)
  gateway.last.breakOff()
  await pass(1000)
  for (const topic of ['runs', 'lists'])
    gateway.last.say(topic, 'refused', { status: 422, message: 'not of this stream' })
  await pass(0)
  expect(heard).toEqual([])
  await pass(25)
  expect(gateway.last.places).toEqual([])
  expect(heard).toEqual(['reset', 'wheels', 'schedules'])
})

test('a list is read again by everybody who shows it, when it has changed', async () => {
  const read: string[] = []
  const stop = news.onChanged('wheels', () => read.push('one'))
  news.onChanged('wheels', () => read.push('two'))
  news.onChanged('schedules', () => read.push('three'))
  gateway.last.say('lists', 'lists', { changed: ['wheels', 'approvals'] }, 'l1')
  await pass(0)
  expect(read).toEqual(['one', 'two'])
  stop()
  gateway.last.say('lists', 'lists', { changed: ['wheels', 'schedules'] }, 'l2')
  await pass(0)
  expect(read).toEqual(['one', 'two', 'two', 'three'])
})
