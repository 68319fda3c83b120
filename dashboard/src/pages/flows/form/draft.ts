// What stands in the fields of a form, between a value and what is typed. Pure.
import { type Key, t } from '../../../text/text'
import type { Field, Member } from './schema'

/** A leaf is the text in its field; null is a group or list that is not set. */
export type Draft = string | null | Draft[] | { [name: string]: Draft }
export type Problems = Map<string, string>

type Read = { value: unknown } | null

export function draftOf(field: Field, value: unknown): Draft {
  switch (field.kind) {
    case 'list':
      if (Array.isArray(value)) return value.map((one) => draftOf(field.item as Field, one))
      return value === null ? null : []
    case 'group':
      if (!isObject(value)) return null
      return groupDraft(field, value)
    case 'choice': {
      const at = (field.choices ?? []).findIndex((one) => JSON.stringify(one) === JSON.stringify(value))
      return at < 0 ? '' : String(at)
    }
    case 'json':
      return value === undefined || (value === null && field.nullable) ? '' : JSON.stringify(value, null, 2)
    case 'any':
      return value === undefined || (value === null && field.nullable) ? '' : looseText(value)
    default:
      return value === undefined || value === null ? '' : typeof value === 'string' ? value : JSON.stringify(value)
  }
}

/** A group that was not there and is to be filled in. */
export function groupDraft(field: Field, value: Record<string, unknown> = {}): Draft {
  return Object.fromEntries((field.members ?? []).map((one) => [one.name, memberDraft(one, value)]))
}

/** What was given, else the default; a group that must be there is. */
export function memberDraft(one: Member, given: Record<string, unknown>): Draft {
  if (one.name in given) return draftOf(one.field, given[one.name])
  const isAwaited = one.required && !one.field.nullable && one.default === undefined
  return isAwaited && one.field.kind === 'group' ? groupDraft(one.field) : draftOf(one.field, one.default)
}

/** Whether this field would show the value as another one, or not at all. */
export function isLost(field: Field, value: unknown): boolean {
  const problems: Problems = new Map()
  const draft = draftOf(field, value)
  const one: Member = { name: '', required: false, field, default: null }
  const read = readDraft(one, draft, '', problems)
  const isEmpty = draft === null || draft === '' || (Array.isArray(draft) && !Array.isArray(value))
  return problems.size > 0 ? isEmpty : JSON.stringify(sorted(read?.value)) !== JSON.stringify(sorted(value))
}

/** Null: it is left out. */
export function readDraft(one: Member, draft: Draft, path: string, problems: Problems): Read {
  const { field } = one
  const wrong = (key: Key, values: Record<string, string | number> = {}): null => {
    problems.set(path, t(key, values))
    return null
  }
  if (draft === null || draft === '') return emptyValue(one, draft, wrong)
  if (Array.isArray(draft)) return listValue(field, draft, path, problems, wrong)
  if (typeof draft === 'object') return groupValue(field, draft, path, problems)
  return leafValue(field, draft, wrong)
}

type Wrong = (key: Key, values?: Record<string, string | number>) => null

function emptyValue({ field, required, ...rest }: Member, draft: Draft, wrong: Wrong): Read {
  if (field.nullable) return { value: null }
  if (!required && !('default' in rest)) return null
  if (required || draft === null || field.kind !== 'text') return wrong('form.required')
  return textProblem(field, '', wrong) ?? { value: '' }
}

function listValue(field: Field, draft: Draft[], path: string, problems: Problems, wrong: Wrong): Read {
  const { minItems, maxItems } = field
  if (minItems !== undefined && draft.length < minItems) return wrong('form.minItems', { n: minItems })
  if (maxItems !== undefined && draft.length > maxItems) return wrong('form.maxItems', { n: maxItems })
  // An empty text is an item, an empty number is not.
  const item: Member = { name: '', required: field.item?.kind !== 'text', field: field.item as Field, default: null }
  const items = draft.map((one, index) => readDraft(item, one, `${path}.${index}`, problems)?.value)
  if (field.unique && new Set(items.map((one) => JSON.stringify(one))).size < items.length) return wrong('form.unique')
  return { value: items }
}

function groupValue(field: Field, draft: Record<string, Draft>, path: string, problems: Problems): Read {
  const read = (field.members ?? []).flatMap((one) => {
    const value = readDraft(one, draft[one.name] ?? '', `${path}.${one.name}`, problems)
    return value === null ? [] : [[one.name, value.value] as const]
  })
  return { value: Object.fromEntries(read) }
}

function leafValue(field: Field, text: string, wrong: Wrong): Read {
  switch (field.kind) {
    case 'integer':
      if (!/^[+-]?\d+$/.test(text.trim())) return wrong('form.integer')
      return numberValue(field, Number(text), wrong)
    case 'number':
      return text.trim() !== '' && Number.isFinite(Number(text))
        ? numberValue(field, Number(text), wrong)
        : wrong('form.number')
    case 'switch':
      return { value: text === 'true' }
    case 'choice':
      return { value: field.choices?.[Number(text)] }
    case 'json':
      return jsonValue(field, text, wrong)
    case 'any':
      return anyValue(field, text, wrong)
    case 'date':
    case 'moment':
      return Number.isNaN(Date.parse(text)) ? wrong('form.date') : { value: text }
    default:
      return textProblem(field, text, wrong) ?? { value: text }
  }
}

function numberValue(field: Field, value: number, wrong: Wrong): Read {
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf } = field
  if (minimum !== undefined && value < minimum) return wrong('form.min', { n: minimum })
  if (maximum !== undefined && value > maximum) return wrong('form.max', { n: maximum })
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return wrong('form.above', { n: exclusiveMinimum })
  if (exclusiveMaximum !== undefined && value >= exclusiveMaximum) return wrong('form.below', { n: exclusiveMaximum })
  if (multipleOf && !Number.isInteger(value / multipleOf)) return wrong('form.multiple', { n: multipleOf })
  return { value }
}

/** Null where the text is as long as it may be, and has the pattern. */
function textProblem(field: Field, text: string, wrong: Wrong): Read {
  const { minLength, maxLength, pattern } = field
  const length = [...text].length
  if (minLength !== undefined && length < minLength) return refused(wrong('form.minLength', { n: minLength }))
  if (maxLength !== undefined && length > maxLength) return refused(wrong('form.maxLength', { n: maxLength }))
  if (pattern && hasPattern(text, pattern) === false) return refused(wrong('form.pattern', { pattern }))
  return null
}

/** A value that is there only so that the caller stops; the problem is noted. */
function refused(_noted: null): Read {
  return { value: undefined }
}

/** Null: a pattern of another language, which the browser does not know. The worker decides. */
function hasPattern(text: string, pattern: string): boolean | null {
  try {
    return new RegExp(pattern, 'u').test(text)
  } catch {
    return null
  }
}

function jsonValue(field: Field, text: string, wrong: Wrong): Read {
  try {
    const value: unknown = JSON.parse(text)
    return isTyped(field, value) ? { value } : wrong('form.types', { types: (field.types ?? []).join(', ') })
  } catch (error) {
    return wrong('form.json', { why: (error as Error).message })
  }
}

function anyValue(field: Field, text: string, wrong: Wrong): Read {
  const parsed = parsedOf(text)
  if (parsed && isTyped(field, parsed.value)) return parsed
  return isTyped(field, text) ? { value: text } : wrong('form.types', { types: (field.types ?? []).join(', ') })
}

function isTyped({ types = [] }: Field, value: unknown): boolean {
  const own = Array.isArray(value) ? 'array' : value === null ? 'null' : typeof value
  return types.length === 0 || types.includes(own) || (types.includes('integer') && Number.isInteger(value))
}

/** Text as it is, where it would not be read as JSON. */
function looseText(value: unknown): string {
  return typeof value === 'string' && parsedOf(value) === null ? value : JSON.stringify(value)
}

function parsedOf(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) }
  } catch {
    return null
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Members in one order, so that equal values have equal texts. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted)
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.keys(value)
      .sort()
      .map((name) => [name, sorted(value[name])]),
  )
}
