import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Line, LogLines } from '../src/pages/run/log/log-lines'
import { begin, finish, type Gateway, later, pass, refused } from './gateway'

const PAGE = 5000
const KEPT_MAX = 200_000

let gateway: Gateway
let log: LogLines

beforeEach(async () => {
  gateway = begin()
  const module = await import('../src/pages/run/log/log-lines')
  log = new module.LogLines('a')
})
afterEach(finish)

const line = (seq: number) => ({ seq, timestamp: '', message: `line ${seq}` }) as Line
const lines = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, more) => line(from + more))
const seqs = () => log.shown.get().lines.map((one) => one.seq)
const page = (entries: Line[], complete = false, truncated = false) => ({
  entries,
  next_token: `t${entries.at(-1)?.seq ?? 0}`,
  complete,
  truncated,
})

test('a log that is complete is read to its end, and not followed', async () => {
  const pages = [page(lines(1, PAGE)), page(lines(PAGE + 1, PAGE + 2), true)]
  gateway.answer = () => pages.shift()
  log.start()
  await pass(100)
  expect(gateway.asked.map(({ query }) => query)).toEqual([
    { limit: String(PAGE) },
    { limit: String(PAGE), since_token: `t${PAGE}` },
  ])
  expect(log.shown.get()).toMatchObject({ loading: false, over: true, cut: false, dropped: 0 })
  expect(seqs().length).toBe(PAGE + 2)
  expect(gateway.connections.length).toBe(0)
})

test('one that goes on is followed from the last line, also after a loss, until its end', async () => {
  gateway.answer = () => page(lines(1, 2), false, true)
  log.start()
  await pass(0)
  await pass(25)
  expect(log.shown.get()).toMatchObject({ loading: false, over: false, cut: true })
  expect(gateway.last.places).toEqual(['log:a~t2'])
  gateway.last.say('log:a', 'status', { status: 'RUNNING' })
  gateway.last.say('log:a', 'logEntry', line(3), 't3')
  await pass(0)
  gateway.last.breakOff()
  await pass(1000)
  expect(gateway.last.places).toEqual(['log:a~t3'])
  gateway.last.say('log:a', 'logEntry', line(4), 't4')
  gateway.last.say('log:a', 'end', {}, 't4')
  gateway.last.say('log:a', 'over', null)
  await pass(0)
  expect([seqs(), log.shown.get().over]).toEqual([[1, 2, 3, 4], true])
})

test('after a reset there are the lines that follow it, and no others', async () => {
  gateway.answer = () => page(lines(1, 3), false, true)
  log.start()
  await pass(0)
  await pass(25)
  gateway.last.say('log:a', 'reset', {}, 't0')
  gateway.last.say('log:a', 'logEntry', line(1), 't1')
  await pass(0)
  expect([seqs(), log.shown.get().cut]).toEqual([[1], false])
  gateway.last.breakOff()
  await pass(1000)
  expect(gateway.last.places).toEqual(['log:a~t1'])
})

test('lines from the first on are not put behind those that there were', async () => {
  gateway.answer = () => page(lines(1, 3))
  log.start()
  await pass(0)
  await pass(25)
  gateway.last.say('log:a', 'refused', { status: 422, message: 'not a token of this log' })
  await pass(0)
  await pass(25)
  gateway.last.say('log:a', 'logEntry', line(1), 't1')
  await pass(0)
  expect(seqs()).toEqual([1])
})

test('that lines are not kept any more is said also when it happens now', async () => {
  gateway.answer = () => page(lines(1, 3))
  log.start()
  await pass(0)
  await pass(25)
  gateway.last.say('log:a', 'truncated', { from: 9 })
  gateway.last.say('log:a', 'logEntry', line(9), 't9')
  await pass(0)
  expect([seqs(), log.shown.get().cut]).toEqual([[1, 2, 3, 9], true])
})

test('not more lines are kept than there is room for, and those that are not are counted', async () => {
  let next = 1
  gateway.answer = () => {
    const from = next
    next += PAGE
    return next > KEPT_MAX + PAGE ? page([]) : page(lines(from, next - 1))
  }
  log.start()
  for (let turn = 0; turn < 45 && gateway.connections.length === 0; turn += 1) await pass(25)
  expect([seqs().length, log.shown.get().dropped]).toEqual([KEPT_MAX, 0])
  for (let seq = KEPT_MAX + 1; seq <= KEPT_MAX + 3; seq += 1)
    gateway.last.say('log:a', 'logEntry', line(seq), `t${seq}`)
  await pass(0)
  const { lines: kept, dropped } = log.shown.get()
  expect([kept.length, dropped, kept[0]?.seq, kept.at(-1)?.seq]).toEqual([KEPT_MAX, 3, 4, KEPT_MAX + 3])
})

test('a refusal is shown, and nothing is followed', async () => {
  gateway.answer = () => refused(404)
  const stop = log.start()
  await pass(100)
  expect(log.shown.get()).toMatchObject({ loading: false, error: { status: 404 } })
  expect(gateway.connections.length).toBe(0)
  stop()
})

test('what was not answered comes over the connection', async () => {
  gateway.answer = () => refused(503)
  log.start()
  await pass(0)
  await pass(25)
  expect(gateway.last.places).toEqual([])
  gateway.last.say('log:a', 'status', { status: 'RUNNING' })
  await pass(0)
  expect([seqs(), log.shown.get().loading]).toEqual([[], false])
  gateway.last.say('log:a', 'logEntry', line(1), 't1')
  await pass(0)
  expect([seqs(), log.shown.get().error]).toEqual([[1], null])
})

test('a log that is over before it was answered is not waited for', async () => {
  gateway.answer = () => refused(503)
  log.start()
  await pass(0)
  await pass(25)
  gateway.last.say('log:a', 'over', null)
  await pass(0)
  expect(log.shown.get()).toMatchObject({ loading: false, over: true, error: null })
})

test('a refusal over the connection is shown, until it is answered', async () => {
  gateway.answer = () => refused(503)
  log.start()
  await pass(0)
  gateway.refuses = { status: 401 }
  await pass(25)
  expect(log.shown.get()).toMatchObject({ loading: false, error: { status: 401 } })
  gateway.refuses = null
  const { reconnect } = await import('../src/api/stream')
  reconnect()
  await pass(0)
  expect(log.shown.get().error).toBe(null)
  gateway.last.say('log:a', 'refused', { status: 404, message: 'no such run' })
  await pass(0)
  expect(log.shown.get()).toMatchObject({ error: { status: 404, message: 'no such run' } })
})

test('who leaves and comes back has every line once, also when an answer was under way', async () => {
  const slow = later<unknown>()
  gateway.answer = () => slow.answer
  log.start()()
  gateway.answer = () => page(lines(1, 2))
  const stop = log.start()
  slow.give(page(lines(1, 2)))
  await pass(0)
  await pass(25)
  gateway.last.say('log:a', 'logEntry', line(3), 't3')
  await pass(0)
  expect(seqs()).toEqual([1, 2, 3])
  stop()
  gateway.answer = () => page(lines(1, 4))
  log.start()
  await pass(0)
  await pass(25)
  expect([seqs(), gateway.last.places]).toEqual([[1, 2, 3, 4], ['log:a~t4']])
})

test('who has left is told nothing more, and follows nothing', async () => {
  const { answer, give } = later<unknown>()
  gateway.answer = () => answer
  const stop = log.start()
  await pass(0)
  stop()
  stop()
  give(page(lines(1, 2)))
  await pass(100)
  expect([seqs(), gateway.connections.length]).toEqual([[], 0])
})
