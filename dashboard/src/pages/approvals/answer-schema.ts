// The form of an answer: which fields the schema in a prompt asks for, and what they make together. Pure.
import type { Param } from '../../api/types'
import { isObject } from '../flows/form/draft'
import type { Schema } from '../flows/form/schema'
import { paramsToBegin } from '../flows/params'

/** The member of a prompt that has the schema. It is no fact to read. */
export const ANSWER_SCHEMA = 'answer_schema'
/** The field of an answer that is not an object, such as a number. */
const WHOLE = 'answer'

type Values = Record<string, unknown>

export type AnswerForm = {
  fields: Param[]
  /** What the fields begin with. It is part of the answer if nobody changes it. */
  begins: Values
  answerOf: (values: Values) => unknown
}

/** Null: nothing is known about the answer. */
export function answerFormOf(prompt: Values | null): AnswerForm | null {
  const schema = prompt?.[ANSWER_SCHEMA]
  if (!isObject(schema)) return null
  const { properties, required = [], $defs, ...whole } = schema as Schema
  if (!properties) {
    const field = { name: WHOLE, required: true, schema: schema as Values, ...defaultIn(whole) }
    return { fields: [field], begins: paramsToBegin([field], {}), answerOf: (values) => values[WHOLE] }
  }
  const fields = Object.entries(properties).map(([name, one]) => ({
    name,
    required: required.includes(name),
    schema: { ...one, ...($defs ? { $defs } : {}) } as Values,
    ...defaultIn(one),
  }))
  return { fields, begins: paramsToBegin(fields, {}), answerOf: (values) => values }
}

function defaultIn(schema: Schema): { default?: unknown } {
  return 'default' in schema ? { default: schema.default } : {}
}

/** The prompt without what makes the form. */
export function factsIn(prompt: Values | null): Values {
  const { question: _, [ANSWER_SCHEMA]: schema, ...rest } = prompt ?? {}
  return schema === undefined || isObject(schema) ? rest : { ...rest, [ANSWER_SCHEMA]: schema }
}
