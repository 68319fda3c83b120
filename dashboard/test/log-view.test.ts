import { expect, test } from 'vitest'
import './page'
import type { Line } from '../src/pages/run/log/log-lines'
import { chosenLines, jsonIn, rankOf, withHits } from '../src/pages/run/log/log-view'

const line = (seq: number, message: string, more: Partial<Line> = {}): Line => ({
  seq,
  message,
  timestamp: '2026-11-18T12:00:00Z',
  ...more,
})

test.each([
  ['a recorded level counts more than the text', line(1, 'no ERROR here', { level: 'INFO' }), 1],
  ['a word at the beginning', line(1, '12:00:01 WARNING disk is nearly full'), 2],
  ['a short form', line(1, '[WARN] disk'), 2],
  ['behind colours', line(1, '\u001b[31mERROR\u001b[0m lost'), 3],
  ['a member of JSON', line(1, '{"level": "error", "message": "lost"}'), 3],
  ['a word in JSON that is no level', line(1, '{"message": "ERROR"}'), 1],
  ['a part of a word', line(1, 'ERRORS: 0'), 1],
  ['nothing', line(1, 'hello'), 1],
])('the rank of a line: %s', (_, given, rank) => {
  expect(rankOf(given)).toBe(rank)
})

test('lines are chosen by task and by least level', () => {
  const lines = [line(1, 'INFO a', { task: 'x' }), line(2, 'ERROR b', { task: 'x' }), line(3, 'ERROR c', { task: 'y' })]
  expect(chosenLines(lines, null, null)).toBe(lines)
  expect(chosenLines(lines, 'x', null).map((one) => one.seq)).toEqual([1, 2])
  expect(chosenLines(lines, null, 'WARNING').map((one) => one.seq)).toEqual([2, 3])
  expect(chosenLines(lines, 'x', 'ERROR').map((one) => one.seq)).toEqual([2])
})

test.each([
  ['{"a": 1}', { a: 1 }],
  ['2026-11-18 INFO done {"rows": [1, 2]}', { rows: [1, 2] }],
  ['\u001b[36m{"a": 1}\u001b[0m', { a: 1 }],
  ['[1, 2]', [1, 2]],
  ['{}', null],
  ['{not json}', null],
  ['took 3 s', null],
  ['5', null],
])('the JSON in %j', (message, value) => {
  expect(jsonIn(message)).toEqual(value)
})

test('matches are divided from the rest, also across parts of other colours', () => {
  const parts = [
    { text: 'the qu', className: 'ansi-cyan' },
    { text: 'ick quick', className: '' },
  ]
  expect(withHits(parts, 'quick')).toEqual([
    { text: 'the ', className: 'ansi-cyan', hit: false },
    { text: 'qu', className: 'ansi-cyan', hit: true },
    { text: 'ick', className: '', hit: true },
    { text: ' ', className: '', hit: false },
    { text: 'quick', className: '', hit: true },
  ])
  expect(withHits(parts, 'slow').every((one) => !one.hit)).toBe(true)
  expect(withHits([{ text: 'aaa', className: '' }], 'a').map((one) => one.hit)).toEqual([true, true, true])
})
