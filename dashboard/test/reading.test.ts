import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Page, RunSummary } from '../src/api/types'
import { type Filters, NO_FILTERS } from '../src/pages/runs/filters'
import { FRESH_MAX, KEPT_AT_TOP } from '../src/pages/runs/run-list'
import type { Reading } from '../src/pages/runs/use-run-list'
import { begin, finish, type Gateway, later, pass, refused } from './gateway'

let gateway: Gateway
let make: (filters?: Partial<Filters>) => Reading
const none: Filters = NO_FILTERS

beforeEach(async () => {
  gateway = begin()
  vi.setSystemTime(1_000_000)
  const { startNews } = await import('../src/live/news')
  const module = await import('../src/pages/runs/use-run-list')
  make = (filters) => new module.Reading({ ...none, ...filters })
  startNews()
  await pass(25)
})
afterEach(finish)

const run = (run_id: string, more: Partial<RunSummary> = {}): RunSummary =>
  ({ run_id, flow_name: 'f', tag: 't', tags: [], status: 'RUNNING', updated_at: 1000, ...more }) as RunSummary
const page = (ids: string, next_cursor: string | null = null): Page => ({
  items: [...ids].map((id) => run(id)),
  next_cursor,
})
const ids = (reading: Reading) =>
  reading.shown
    .get()
    .rows.map((one) => one.run_id)
    .join('')

async function say(runs: RunSummary[], gone: string[] = [], event = 'runs'): Promise<void> {
  gateway.last.say('runs', event, { runs, gone, counts: {}, minute: {}, ts: 1000 }, 'p')
  await pass(0)
}

test('pages are asked for one after the other, each from where the last ended, until there are no more', async () => {
  const pages: Page[] = [page('abc', 'c1'), page('de', 'c2'), page('f')]
  gateway.answer = () => pages.shift()
  const reading = make({ flow: 'f' })
  reading.start()
  reading.more()
  await pass(0)
  expect([ids(reading), reading.shown.get().whole]).toEqual(['abc', false])
  reading.more()
  reading.more()
  await pass(0)
  reading.more()
  await pass(0)
  reading.more()
  await pass(0)
  expect([ids(reading), reading.shown.get().whole, reading.shown.get().loading]).toEqual(['abcdef', true, false])
  expect(gateway.asked.map(({ query }) => query)).toEqual([
    { limit: '100', cursor: '', flow: 'f' },
    { limit: '200', cursor: 'c1', flow: 'f' },
    { limit: '200', cursor: 'c2', flow: 'f' },
  ])
})

test('the time that a list goes back to is that of its first page', async () => {
  const pages: Page[] = [page('a', 'c1'), page('b')]
  gateway.answer = () => pages.shift()
  const reading = make({ since: 'hour' })
  reading.start()
  await pass(60_000)
  reading.more()
  await pass(0)
  const [first, second] = gateway.asked.map(({ query }) => Number(query.updated_after))
  expect(first).toBeCloseTo(1000 - 3600, 0)
  expect(second).toBe(first)
})

test('a run that changed while its page was under way is there once, as it is now', async () => {
  const { answer, give } = later<Page>()
  gateway.answer = () => answer
  const reading = make()
  reading.start()
  await say([run('b', { status: 'FAILED' })])
  give(page('abc'))
  await pass(0)
  expect(ids(reading)).toBe('bac')
  expect(reading.shown.get().rows[0]?.status).toBe('FAILED')
})

test('a run that left while its page was under way does not come back with it', async () => {
  const { answer, give } = later<Page>()
  gateway.answer = () => answer
  const reading = make({ status: 'RUNNING' })
  reading.start()
  await say([run('b', { status: 'COMPLETED' }), run('d', { status: 'COMPLETED' })], ['c'])
  await say([run('d')])
  give(page('abcd', 'c1'))
  await pass(0)
  expect(ids(reading)).toBe('da')
  // The next page was asked for later, and knows better.
  gateway.answer = () => page('bc')
  reading.more()
  await pass(0)
  expect(ids(reading)).toBe('dabc')
})

test('a run that waits to be shown is not shown as a page had it', async () => {
  const { answer, give } = later<Page>()
  gateway.answer = () => answer
  const reading = make()
  reading.start()
  reading.setAtTop(false)
  await say([run('b', { status: 'FAILED' })])
  give(page('abc'))
  await pass(0)
  expect([ids(reading), reading.shown.get().fresh]).toEqual(['ac', 1])
  await say([run('b', { status: 'RUNNING' })])
  reading.showFresh()
  expect([ids(reading), reading.shown.get().rows[0]?.status]).toEqual(['bac', 'RUNNING'])
})

test('a reset reads everything anew; a page of the list as it was is not taken', async () => {
  const old = later<Page>()
  gateway.answer = () => old.answer
  const reading = make()
  reading.start()
  await pass(0)
  await say([], [], 'reset')
  await say([], [], 'reset')
  gateway.answer = () => page('new')
  old.give(page('old', 'c1'))
  await pass(0)
  expect(ids(reading)).toBe('new')
  expect(gateway.asked.map(({ query }) => query.cursor)).toEqual(['', ''])
  gateway.answer = () => page('xyz')
  await say([], [], 'reset')
  expect(ids(reading)).toBe('xyz')
})

test('what is gone, or fits no longer, leaves; also while the reader is further down', async () => {
  gateway.answer = () => page('abcd')
  const reading = make({ status: 'RUNNING' })
  reading.start()
  await pass(0)
  await say([run('a', { status: 'COMPLETED' })], ['c', 'unknown'])
  expect(ids(reading)).toBe('bd')
  reading.setAtTop(false)
  await say([run('n'), run('m')])
  await say([run('b', { status: 'FAILED' })], ['n'])
  expect([ids(reading), reading.shown.get().fresh]).toEqual(['d', 1])
  reading.setAtTop(true)
  expect([ids(reading), reading.shown.get().fresh]).toEqual(['md', 0])
})

test('a failure is shown and repeated after its pause, not by scrolling; a refusal is not repeated', async () => {
  gateway.answer = () => refused(503, { 'Retry-After': '3' })
  const reading = make()
  reading.start()
  await pass(0)
  expect(reading.shown.get()).toMatchObject({ loading: false, error: { status: 503 } })
  reading.more()
  await pass(2900)
  expect(gateway.asked.length).toBe(1)
  gateway.answer = () => page('ab', 'c1')
  await pass(100)
  expect([ids(reading), reading.shown.get().error]).toEqual(['ab', null])
  gateway.answer = () => refused(422)
  reading.more()
  await pass(600_000)
  expect([gateway.asked.length, ids(reading)]).toEqual([3, 'ab'])
  gateway.answer = () => page('c')
  reading.again()
  await pass(0)
  expect([ids(reading), reading.shown.get().error]).toEqual(['abc', null])
})

test('who has left hears nothing and asks for nothing, and can come back', async () => {
  gateway.answer = () => later<Page>().answer
  const reading = make()
  const stop = reading.start()
  await pass(0)
  stop()
  stop()
  await say([run('x')])
  await pass(60_000)
  expect([ids(reading), gateway.asked.length]).toEqual(['', 1])
  gateway.answer = () => page('ab')
  reading.start()
  await pass(0)
  await say([run('b')])
  expect(ids(reading)).toBe('ba')
})

test('a list that goes on all day is bounded, and can be read down again', async () => {
  gateway.answer = () => page('')
  const reading = make()
  reading.start()
  await pass(0)
  expect(reading.shown.get().whole).toBe(true)
  for (let from = 0; from <= 2 * KEPT_AT_TOP; from += 100) {
    await say(Array.from({ length: 100 }, (_, more) => run(`r${from + more}`)))
  }
  const { rows, whole } = reading.shown.get()
  expect([rows.length, whole]).toEqual([KEPT_AT_TOP, false])
  expect(rows[0]?.run_id).toBe(`r${2 * KEPT_AT_TOP + 99}`)
  gateway.answer = () => ({ items: [...rows.slice(0, 99), run('r5')], next_cursor: null })
  reading.more()
  await pass(0)
  expect(gateway.asked.at(-1)?.query.cursor).toBe('')
  expect(reading.shown.get().rows.length).toBe(KEPT_AT_TOP + 1)
})

test('more than is kept for whoever is further down is counted up to the bound, then read anew', async () => {
  gateway.answer = () => page('ab')
  const reading = make()
  reading.start()
  await pass(0)
  reading.setAtTop(false)
  for (let from = 0; from < FRESH_MAX + 100; from += 100) {
    await say(Array.from({ length: 100 }, (_, more) => run(`r${from + more}`)))
  }
  expect(reading.shown.get()).toMatchObject({ fresh: FRESH_MAX, freshMore: true })
  expect(ids(reading)).toBe('ab')
  gateway.answer = () => page('xyz')
  reading.showFresh()
  await pass(0)
  expect(ids(reading)).toBe('xyz')
  expect(reading.shown.get()).toMatchObject({ fresh: 0, freshMore: false })
})
