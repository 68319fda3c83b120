import { expect, test } from 'vitest'
import type { Param } from '../src/api/types'
import { localOf, momentOf } from '../src/pages/flows/form/moment'
import { fieldOf } from '../src/pages/flows/form/schema'
import { draftsFor, givenBy, membersFor, othersIn } from '../src/pages/flows/form/values'

const ORDER = {
  type: 'object',
  description: 'An order.',
  required: ['amount'],
  properties: {
    amount: { type: 'integer', minimum: 1 },
    due_on: { anyOf: [{ type: 'string', format: 'date' }, { type: 'null' }], default: null },
    market: { $ref: '#/$defs/Market', default: 'paris' },
  },
  $defs: { Market: { enum: ['tokyo', 'paris'], type: 'string' } },
}
const KNOWN: Param[] = [
  { name: 'day', required: true, type: 'str', schema: { type: 'string', format: 'date' } },
  { name: 'pages', required: false, default: 3, schema: { type: 'integer', minimum: 1, maximum: 9 } },
  { name: 'strict', required: false, default: true, schema: { type: 'boolean' } },
  { name: 'order', required: false, schema: ORDER },
  { name: 'names', required: false, default: [], schema: { type: 'array', items: { type: 'string' } } },
]

function read(known: Param[], given: Record<string, unknown>, changes: Record<string, unknown> = {}) {
  const members = membersFor(known, given)
  const drafts = { ...draftsFor(members, given), ...(changes as ReturnType<typeof draftsFor>) }
  const { values, problems } = givenBy(members, drafts, given)
  return { values, problems: Object.fromEntries(problems) }
}

test('each type has its field', () => {
  const kinds = (schemas: object[]) => schemas.map((one) => fieldOf(one).kind)
  expect(kinds([{ type: 'string' }, { type: 'integer' }, { type: 'number' }, { type: 'boolean' }])).toEqual([
    'text',
    'integer',
    'number',
    'switch',
  ])
  expect(kinds([{ enum: ['a', 2] }, { const: 1 }, { type: 'string', format: 'date-time' }])).toEqual([
    'choice',
    'choice',
    'moment',
  ])
  expect(
    kinds([{ type: 'object', additionalProperties: {} }, { anyOf: [{ type: 'integer' }, { type: 'string' }] }, {}]),
  ).toEqual(['json', 'any', 'any'])
  expect(fieldOf({ anyOf: [{ type: 'integer', minimum: 1 }, { type: 'null' }] })).toEqual({
    kind: 'integer',
    nullable: true,
    minimum: 1,
  })
  expect(fieldOf({ type: ['string', 'null'] })).toEqual({ kind: 'text', nullable: true })
})

test('a model is a group, and a type that contains itself ends as JSON', () => {
  const order = fieldOf(ORDER)
  expect(order.members?.map((one) => [one.name, one.field.kind, one.required])).toEqual([
    ['amount', 'integer', true],
    ['due_on', 'date', false],
    ['market', 'choice', false],
  ])
  const node = {
    $ref: '#/$defs/Node',
    $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } } },
  }
  let inner = fieldOf(node)
  for (let depth = 0; inner.kind === 'group'; depth += 1) {
    expect(depth).toBeLessThan(10)
    inner = inner.members?.[0]?.field as typeof inner
  }
  expect(inner.kind).toBe('json')
  const loop = { $ref: '#/$defs/A', $defs: { A: { $ref: '#/$defs/A' } } }
  expect(fieldOf(loop).kind).toBe('any')
})

test('what is not touched is left to the flow, and what was given stays', () => {
  expect(read(KNOWN, { day: '2026-01-31' })).toEqual({ values: { day: '2026-01-31' }, problems: {} })
  const given = { day: '2026-01-31', pages: 5, more: { a: 1 } }
  expect(read(KNOWN, given)).toEqual({ values: given, problems: {} })
  expect(othersIn(membersFor(KNOWN, given), given)).toEqual({ more: { a: 1 } })
})

test('what is typed becomes a value of its type', () => {
  const order = { amount: '2', due_on: '', market: '0' }
  expect(read(KNOWN, { day: '2026-01-31' }, { pages: '4', strict: 'false', order, names: ['a', ''] })).toEqual({
    values: {
      day: '2026-01-31',
      pages: 4,
      strict: false,
      order: { amount: 2, due_on: null, market: 'tokyo' },
      names: ['a', ''],
    },
    problems: {},
  })
})

test('a problem is told at the place of its field', () => {
  const { problems } = read(KNOWN, {}, { pages: '10', order: { amount: '0', due_on: 'x', market: '' } })
  expect(problems).toEqual({
    day: 'This is required.',
    pages: 'Enter 9 or less.',
    'order.amount': 'Enter 1 or more.',
    'order.due_on': 'Enter a date.',
    'order.market': 'This is required.',
  })
  const whole = (text: string) => read([{ name: 'n', required: true, schema: { type: 'integer' } }], {}, { n: text })
  expect(whole('1.5').problems).toEqual({ n: 'Enter a whole number.' })
  expect(whole('').problems).toEqual({ n: 'This is required.' })
  expect(whole('-3').values).toEqual({ n: -3 })
  const strict = { type: 'array', items: { type: 'integer' }, uniqueItems: true, minItems: 2 }
  const list = (items: string[]) => read([{ name: 'n', required: true, schema: strict }], {}, { n: items }).problems
  expect(list(['1'])).toEqual({ n: 'Add items: at least 2 are required.' })
  expect(list(['1', '1'])).toEqual({ n: 'Each item may be there only once.' })
  expect(list(['1', 'x'])).toEqual({ 'n.1': 'Enter a whole number.' })
})

test('a value that its field cannot show is not lost', () => {
  const given = { pages: 'all', order: { amount: 1, due_on: null, market: 'paris', gift: true }, names: 'x', day: 5 }
  expect(read(KNOWN, given).values).toMatchObject({ order: given.order, names: 'x', day: 5 })
  expect(read(KNOWN, given).problems).toEqual({ pages: 'Enter a whole number.' })
})

test('text that is JSON stays text where text is meant', () => {
  const loose: Param[] = [{ name: 'x', required: true }]
  expect(read(loose, { x: '5' }).values).toEqual({ x: '5' })
  expect(read(loose, {}, { x: '5' }).values).toEqual({ x: 5 })
  expect(read(loose, {}, { x: 'five' }).values).toEqual({ x: 'five' })
  const either: Param[] = [{ name: 'x', required: true, schema: { anyOf: [{ type: 'integer' }, { type: 'string' }] } }]
  expect(read(either, {}, { x: 'true' }).values).toEqual({ x: 'true' })
  expect(read(either, {}, { x: '7' }).values).toEqual({ x: 7 })
})

test('a moment keeps its instant', () => {
  const local = localOf('2026-01-31T08:00:00Z')
  expect(Date.parse(momentOf(local))).toBe(Date.parse('2026-01-31T08:00:00Z'))
  expect(localOf('2026-01-31T08:00:00')).toBe('2026-01-31T08:00:00')
  expect(momentOf('')).toBe('')
})
