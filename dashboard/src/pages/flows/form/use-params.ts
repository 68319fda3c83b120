// The state of a form of parameters: fields or JSON, and what both have in common.
import { useMemo, useState } from 'react'
import type { Param } from '../../../api/types'
import { paramsIn } from '../params'
import { type Draft, draftOf, groupDraft, type Problems } from './draft'
import type { Member } from './schema'
import { type Drafts, draftsFor, givenBy, membersFor, othersIn } from './values'

type Given = Record<string, unknown>

export type ParamsForm = {
  /** Null: nothing is known about them, so there are no fields. */
  members: Member[] | null
  mode: 'form' | 'json'
  setMode: (mode: 'form' | 'json') => void
  drafts: Drafts
  change: (name: string, draft: Draft) => void
  others: Given
  text: string
  setText: (text: string) => void
  /** By the path of the field; in JSON, of the text as a whole: ''. Empty until they are asked for. */
  problems: Problems
  /** The parameters; null where something is wrong, which is then shown. */
  read: () => Given | null
  isChanged: boolean
}

/** `begins`: what stands in the form until the user changes it. It may still be read. */
export function useParams(known: Param[] | null | undefined, begins: Given): ParamsForm {
  const [chosen, setChosen] = useState<'form' | 'json' | null>(null)
  const [base, setBase] = useState<Given | null>(null)
  const [changed, setChanged] = useState<Drafts | null>(null)
  const [typed, setTyped] = useState<string | null>(null)
  const [isAsked, setAsked] = useState(false)
  const given = base ?? begins
  const givenText = JSON.stringify(given)
  // biome-ignore lint/correctness/useExhaustiveDependencies: equal values are given again in each drawing
  const members = useMemo(() => (known ? membersFor(known, given) : null), [known, givenText])
  const drafts = { ...(members ? draftsFor(members, given) : {}), ...changed }
  const mode = members === null ? 'json' : (chosen ?? 'form')
  const inForm = members ? givenBy(members, drafts, given) : { values: given, problems: new Map<string, string>() }
  const text = typed ?? JSON.stringify(inForm.values, null, 2)
  const inText = mode === 'json' ? parsed(text) : null
  const problems = mode === 'form' ? inForm.problems : (inText?.problems ?? new Map())
  const setMode = (next: 'form' | 'json') => {
    if (next === mode) return
    if (next === 'form' && typed !== null) {
      if (inText?.values === null) return setAsked(true)
      setBase(inText?.values ?? null)
      setChanged(null)
    }
    setTyped(null)
    setAsked(false)
    setChosen(next)
  }
  const values = mode === 'json' ? (inText?.values ?? null) : inForm.values
  return {
    members,
    mode,
    setMode,
    drafts,
    change: (name, draft) => setChanged({ ...changed, [name]: draft }),
    others: members ? othersIn(members, given) : {},
    text,
    setText: setTyped,
    problems: isAsked ? problems : new Map(),
    read: () => {
      setAsked(true)
      return problems.size > 0 ? null : values
    },
    isChanged: problems.size > 0 || JSON.stringify(values) !== JSON.stringify(begins),
  }
}

function parsed(text: string): { values: Given | null; problems: Problems } {
  try {
    return { values: paramsIn(text), problems: new Map() }
  } catch (error) {
    return { values: null, problems: new Map([['', (error as Error).message]]) }
  }
}

/** What a group or list begins with when it is set. */
export function setDraft(member: Member): Draft {
  return member.field.kind === 'group' ? groupDraft(member.field) : draftOf(member.field, [])
}
