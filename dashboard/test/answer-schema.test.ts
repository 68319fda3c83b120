import { expect, test } from 'vitest'
import { answerFormOf, factsIn } from '../src/pages/approvals/answer-schema'
import { matches } from '../src/pages/approvals/sorting'

const SCHEMA = {
  type: 'object',
  required: ['version'],
  properties: {
    version: { type: 'string' },
    stage: { $ref: '#/$defs/Stage', default: 'test' },
  },
  $defs: { Stage: { enum: ['test', 'live'] } },
}

test('each member of an object is a field, and a default is part of the answer', () => {
  const form = answerFormOf({ question: 'Which?', answer_schema: SCHEMA })
  expect(form?.fields.map((one) => [one.name, one.required])).toEqual([
    ['version', true],
    ['stage', false],
  ])
  expect(form?.fields[1]?.schema).toEqual({ ...SCHEMA.properties.stage, $defs: SCHEMA.$defs })
  expect(form?.begins).toEqual({ stage: 'test' })
  expect(form?.answerOf({ version: '2' })).toEqual({ version: '2' })
})

test('an answer that is not an object has one field', () => {
  const form = answerFormOf({ answer_schema: { type: 'integer', minimum: 1, default: 3 } })
  expect(form?.fields.map((one) => one.required)).toEqual([true])
  expect(form?.answerOf(form.begins)).toBe(3)
})

test('without a schema there is no form, also where a flow uses the name for something else', () => {
  expect(answerFormOf(null)).toBeNull()
  expect(answerFormOf({ question: 'Deploy?' })).toBeNull()
  expect(answerFormOf({ answer_schema: 'public' })).toBeNull()
  expect(factsIn({ answer_schema: 'public', file: 'a' })).toEqual({ answer_schema: 'public', file: 'a' })
})

test('a schema is neither shown nor searched', () => {
  const prompt = { question: 'Which?', file: 'shop.tar', answer_schema: SCHEMA }
  expect(factsIn(prompt)).toEqual({ file: 'shop.tar' })
  const one = { run_id: 'r', task: 'release', flow_name: 'f', prompt }
  expect(matches(one, 'shop')).toBe(true)
  expect(matches(one, 'which')).toBe(true)
  expect(matches(one, 'properties')).toBe(false)
})
