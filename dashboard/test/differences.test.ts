import './page'
import { expect, test } from 'vitest'
import type { Run } from '../src/api/types'
import { DIFFERENCES_MAX, differencesOf, longerBy, tasksOf } from '../src/pages/run/compare/differences'

const paths = (left: unknown, right: unknown) =>
  differencesOf(left, right)
    .rows.filter((row) => row.differs)
    .map((row) => row.path)

test('leaves are compared by path, also within lists', () => {
  expect(paths({ a: 1, b: { c: [1, 2] } }, { a: 1, b: { c: [1, 3] }, d: null })).toEqual(['b.c[1]', 'd'])
  expect(paths({ a: 1 }, { a: 1 })).toEqual([])
})

test('values of different kinds are compared whole', () => {
  expect(paths({ a: [1] }, { a: { 0: 1 } })).toEqual(['a'])
  expect(paths(undefined, 'x')).toEqual([''])
  expect(paths({ a: {} }, { a: { b: 1 } })).toEqual(['a.b'])
})

test('names of objects that every object has are not taken for members', () => {
  expect(differencesOf({ constructor: 1 }, { a: 1 }).rows).toEqual([
    { path: 'constructor', left: 1, right: undefined, differs: true },
    { path: 'a', left: undefined, right: 1, differs: true },
  ])
})

test('more values than are shown are cut', () => {
  const many = Object.fromEntries(Array.from({ length: DIFFERENCES_MAX + 50 }, (_, number) => [`k${number}`, number]))
  const { rows, cut } = differencesOf(many, {})
  expect([rows.length, cut]).toEqual([DIFFERENCES_MAX, true])
})

test('tasks of both runs are paired, those of one run alone too', () => {
  const record = (started_at: number, ended_at: number) => ({ started_at, ended_at, attempt: 1, state: 'SUCCEEDED' })
  const left = { status: 'COMPLETED', tasks: { a: 'SUCCEEDED' }, task_records: { a: record(1, 3) } } as unknown as Run
  const right = {
    status: 'COMPLETED',
    tasks: { a: 'SUCCEEDED', b: 'PENDING' },
    task_records: { a: record(1, 2) },
  } as unknown as Run
  expect(tasksOf(left, right).map((pair) => [pair.name, pair.left?.seconds, pair.right?.seconds])).toEqual([
    ['a', 2, 1],
    ['b', undefined, null],
  ])
  expect([longerBy(1, 2), longerBy(null, 2), longerBy(1, undefined)]).toEqual([1, null, null])
})
