import './page'
import { expect, test } from 'vitest'
import type { RunSummary } from '../src/api/types'
import { asked, filtersIn, fits, NO_FILTERS, orderOf, unknownIn } from '../src/pages/runs/filters'
import { comparing, merged, turned } from '../src/pages/runs/order'
import { RunList } from '../src/pages/runs/run-list'
import { fieldOf, wordOf } from '../src/pages/runs/submitted'
import { addressOf, viewsIn, withView, wordsOf } from '../src/pages/runs/views'

const run = (run_id: string, submitted_at: number, took: number | null = null): RunSummary =>
  ({
    run_id,
    submitted_at,
    updated_at: submitted_at,
    start_time: took === null ? null : submitted_at,
    end_time: took === null ? null : submitted_at + took,
    status: took === null ? 'RUNNING' : 'COMPLETED',
    tags: [],
  }) as unknown as RunSummary
const ids = (runs: RunSummary[]) => runs.map((one) => one.run_id).join('')
const newest = comparing('-submitted')
const all = () => true
const words = (text: string) => new URLSearchParams(text)

test('runs are ordered as the server orders them, equal values by id', () => {
  const runs = [run('b', 2, 5), run('a', 1, 9), run('c', 2, 1)]
  const sorted = (sort: string) => ids([...runs].sort(comparing(sort) ?? undefined))
  expect(['-submitted', 'submitted', '-duration', 'duration'].map(sorted)).toEqual(['cba', 'abc', 'abc', 'cba'])
  expect(comparing('')).toBeNull()
})

test('a click on a head sorts down, then up, then not', () => {
  expect(turned('', 'submitted')).toBe('-submitted')
  expect(turned('-submitted', 'submitted')).toBe('submitted')
  expect(turned('submitted', 'submitted')).toBe('')
  expect(turned('-submitted', 'duration')).toBe('-duration')
})

test('a new run gets its place in a sorted list, but not behind a page that is not read yet', () => {
  const rows = [run('d', 4), run('b', 2)]
  const more = [run('a', 1), run('c', 3), run('e', 5)]
  if (newest === null) throw new Error('an order')
  expect(ids(merged(rows, more, newest, false))).toBe('edcb')
  expect(ids(merged(rows, more, newest, true))).toBe('edcba')
})

test('a changed run keeps its place, and what waits on top comes into its place', () => {
  const list = new RunList(newest)
  list.append([run('d', 4), run('b', 2)])
  list.change([run('b', 2, 1)], [], all, true)
  expect(ids(list.rows)).toBe('db')
  expect(list.rows[1]?.status).toBe('COMPLETED')
  list.change([run('a', 1), run('c', 3)], [], all, false)
  expect([ids(list.rows), list.fresh.size]).toEqual(['db', 1])
  list.showFresh()
  expect(ids(list.rows)).toBe('dcb')
  // The run behind the last row comes with its page, once.
  list.append([run('a', 1)])
  expect(ids(list.rows)).toBe('dcba')
})

test('a range of submissions is asked for by submission, and decided as the server does', () => {
  const range = filtersIn(words('from=2026-01-02T03:04Z&to=2026-01-02T03:05Z'))
  const from = Date.UTC(2026, 0, 2, 3, 4) / 1000
  expect(orderOf(range)).toBe('-submitted')
  expect(asked(range, 0)).toMatchObject({ submitted_after: from, submitted_before: from + 60, sort: '-submitted' })
  expect([from, from + 1, from + 59, from + 60].map((at) => fits(run('a', at), range, 0))).toEqual([
    false,
    true,
    true,
    false,
  ])
  const day = { ...NO_FILTERS, submitted: 'day' }
  expect(asked(day, 100_000).submitted_after).toBe(100_000 - 86_400)
  expect(fits(run('a', 10), { ...NO_FILTERS, sort: 'duration' }, 0)).toBe(false)
  expect(fits(run('a', 10, 0), { ...NO_FILTERS, sort: 'duration' }, 0)).toBe(true)
})

test('words of the address that are no instant and no order are left out', () => {
  expect(unknownIn(words('from=yesterday&sort=name&submitted=day'))).toEqual(['from=yesterday', 'sort=name'])
})

test('an instant in the address is UTC, and local in the form', () => {
  const field = fieldOf('2026-06-01T12:30Z')
  expect(Date.parse(field)).toBe(Date.UTC(2026, 5, 1, 12, 30))
  expect(wordOf(field)).toBe('2026-06-01T12:30Z')
  expect([wordOf(''), fieldOf(''), fieldOf('soon')]).toEqual(['', '', ''])
})

test('a view is its filters in one order, and its link has its name', () => {
  const view = { name: 'Night & day', words: wordsOf(words('tag=b&status=FAILED&view=old&q=&start=1')) }
  expect(view.words).toBe('status=FAILED&tag=b')
  const query = words(addressOf(view).split('?')[1] ?? '')
  expect(query.get('view')).toBe('Night & day')
  expect(wordsOf(query)).toBe(view.words)
})

test('a view replaces the one of its name, and what is not a view is left out', () => {
  const one = { name: 'a', words: 'q=1' }
  expect(withView([one, { name: 'b', words: '' }], { name: 'a', words: 'q=2' })).toEqual([
    { name: 'a', words: 'q=2' },
    { name: 'b', words: '' },
  ])
  expect(viewsIn(JSON.stringify([one, 3, { name: 1 }]))).toEqual([one])
  expect([viewsIn('{'), viewsIn(null), viewsIn('{}')]).toEqual([[], [], []])
})

test('what changes while its page is under way is shown as it is now', () => {
  const list = new RunList(newest)
  list.expectPage()
  list.change([run('b', 2, 1)], [], all, true)
  list.change([run('a', 1)], [], all, true)
  list.change([], ['a'], all, true)
  list.append([run('c', 3), run('b', 2), run('a', 1)])
  expect([ids(list.rows), list.rows[1]?.status]).toEqual(['cb', 'COMPLETED'])
})
