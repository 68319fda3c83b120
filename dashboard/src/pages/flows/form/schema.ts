// Which field a JSON Schema asks for. Pure. What it does not understand becomes a field for JSON.
import type { Param } from '../../../api/types'

export type Schema = {
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  format?: string
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  $ref?: string
  $defs?: Record<string, Schema>
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema | boolean
  prefixItems?: unknown[]
  title?: string
  description?: string
  default?: unknown
  uniqueItems?: boolean
} & Limits

export type Limits = {
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
  exclusiveMaximum?: number
  multipleOf?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
  pattern?: string
}

/** `moment`: a date with its time. `any`: text, or JSON where it is JSON. */
export type Kind =
  | 'text'
  | 'secret'
  | 'integer'
  | 'number'
  | 'switch'
  | 'choice'
  | 'date'
  | 'moment'
  | 'time'
  | 'list'
  | 'group'
  | 'json'
  | 'any'

export type Field = Limits & {
  kind: Kind
  nullable: boolean
  title?: string
  about?: string
  choices?: unknown[]
  item?: Field
  members?: Member[]
  /** Of `any` and `json`: which JSON types are taken; empty is all. */
  types?: string[]
  unique?: boolean
}

export type Member = { name: string; required: boolean; field: Field; default?: unknown }

/** Deeper than this a form is harder to read than JSON. */
const DEPTH_MAX = 4
const FORMATS: Record<string, Kind> = { date: 'date', 'date-time': 'moment', time: 'time', password: 'secret' }
const PLAIN: Record<string, Kind> = { string: 'text', integer: 'integer', number: 'number', boolean: 'switch' }
/** Of workers that report the type as text only. */
const WRITTEN: Record<string, Kind> = { str: 'text', int: 'integer', float: 'number', bool: 'switch' }
const LIMITS = [
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'minItems',
  'maxItems',
  'pattern',
] as const

export function memberOf(param: Param): Member {
  const field = param.schema
    ? fieldOf(param.schema as Schema)
    : { kind: WRITTEN[param.type ?? ''] ?? ('any' as const), nullable: false }
  const known = 'default' in param ? { default: param.default } : {}
  return { name: param.name, required: param.required, field, ...known }
}

export function fieldOf(schema: Schema, defs: Record<string, Schema> = schema.$defs ?? {}, depth = 0): Field {
  const { schema: whole, nullable } = settled(schema, defs)
  const said = {
    nullable,
    ...(whole.title ? { title: whole.title } : {}),
    ...(whole.description ? { about: whole.description } : {}),
    ...limitsOf(whole),
  }
  const choices = whole.enum ?? ('const' in whole ? [whole.const] : undefined)
  if (choices)
    return {
      ...said,
      kind: 'choice',
      nullable: nullable || choices.includes(null),
      choices: choices.filter((one) => one !== null),
    }
  if (whole.anyOf ?? whole.oneOf) return { ...said, kind: 'any', types: typesOf(whole, defs) }
  if (whole.type === 'object' && whole.properties && depth < DEPTH_MAX)
    return { ...said, kind: 'group', members: membersOf(whole, defs, depth) }
  if (whole.type === 'array' && !whole.prefixItems && depth < DEPTH_MAX) {
    const items = typeof whole.items === 'object' ? whole.items : {}
    return { ...said, kind: 'list', item: fieldOf(items, defs, depth + 1), unique: whole.uniqueItems === true }
  }
  if (whole.type === 'object' || whole.type === 'array') return { ...said, kind: 'json', types: [whole.type] }
  const plain = PLAIN[String(whole.type)]
  if (plain === 'text') return { ...said, kind: FORMATS[whole.format ?? ''] ?? 'text' }
  return plain ? { ...said, kind: plain } : { ...said, kind: 'any', types: [] }
}

function membersOf(schema: Schema, defs: Record<string, Schema>, depth: number): Member[] {
  return Object.entries(schema.properties ?? {}).map(([name, one]) => ({
    name,
    required: schema.required?.includes(name) ?? false,
    field: fieldOf(one, defs, depth + 1),
    ...('default' in one ? { default: one.default } : {}),
  }))
}

/** References followed, and `null` among its types taken as "may be empty". */
function settled(schema: Schema, defs: Record<string, Schema>): { schema: Schema; nullable: boolean } {
  let whole = schema
  let nullable = false
  // Twice as deep as any form is shown: a reference to itself ends here.
  for (let step = 0; step < 2 * DEPTH_MAX; step += 1) {
    const { $ref, allOf, anyOf, oneOf, ...own } = whole
    const options = anyOf ?? oneOf
    const other = options?.filter((one) => one.type !== 'null')
    if ($ref !== undefined) whole = { ...(defs[$ref.replace('#/$defs/', '')] ?? {}), ...own }
    else if (allOf?.length === 1) whole = { ...allOf[0], ...own }
    else if (options && other?.length === 1) {
      nullable ||= other.length < options.length
      whole = { ...other[0], ...own }
    } else if (options && other && other.length < options.length) {
      nullable = true
      whole = { ...own, anyOf: other }
    } else if (Array.isArray(whole.type)) {
      const types = whole.type.filter((one) => one !== 'null')
      nullable ||= types.length < whole.type.length
      whole = types.length === 1 ? { ...whole, type: types[0] } : { ...own, anyOf: types.map((type) => ({ type })) }
    } else break
  }
  return { schema: whole, nullable }
}

function typesOf(schema: Schema, defs: Record<string, Schema>): string[] {
  const options = schema.anyOf ?? schema.oneOf ?? []
  const types = options.map((one) => settled(one, defs).schema.type)
  return types.every((type) => typeof type === 'string') ? (types as string[]) : []
}

function limitsOf(schema: Schema): Limits {
  return Object.fromEntries(LIMITS.filter((name) => schema[name] !== undefined).map((name) => [name, schema[name]]))
}
