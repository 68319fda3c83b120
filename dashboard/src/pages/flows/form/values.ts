// The parameters of a run as a form has them: fields for those that are known, the others as they were given. Pure.
import type { Param } from '../../../api/types'
import { type Draft, isLost, memberDraft, type Problems, readDraft } from './draft'
import { type Field, type Member, memberOf } from './schema'

export type Drafts = Record<string, Draft>
type Given = Record<string, unknown>

const LOOSE: Field = { kind: 'any', nullable: false, types: [] }

/** The fields of a flow. A value that its field cannot show gets one that can. */
export function membersFor(known: Param[], given: Given): Member[] {
  return known.map(memberOf).map((one) => {
    const isUnfit = one.name in given && isLost(one.field, given[one.name])
    return isUnfit ? { ...one, field: LOOSE } : one
  })
}

export function draftsFor(members: Member[], given: Given): Drafts {
  return Object.fromEntries(members.map((one) => [one.name, memberDraft(one, given)]))
}

/** What was given without being known, and what the fields have. A field that was not touched adds nothing. */
export function givenBy(members: Member[], drafts: Drafts, given: Given): { values: Given; problems: Problems } {
  const problems: Problems = new Map()
  const before = draftsFor(members, given)
  const names = new Set(members.map((one) => one.name))
  const values = Object.fromEntries(Object.entries(given).filter(([name]) => !names.has(name)))
  for (const one of members) {
    const draft = drafts[one.name] ?? null
    const isUntouched = !(one.name in given) && JSON.stringify(draft) === JSON.stringify(before[one.name])
    if (isUntouched && !one.required) continue
    const read = readDraft(one, draft, one.name, problems)
    if (read !== null) values[one.name] = read.value
  }
  return { values, problems }
}

export function othersIn(members: Member[], given: Given): Given {
  const names = new Set(members.map((one) => one.name))
  return Object.fromEntries(Object.entries(given).filter(([name]) => !names.has(name)))
}
