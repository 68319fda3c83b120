// A field for each kind of parameter. What is wrong with it stands beside it.
import { type ChangeEvent, type JSX, useId } from 'react'
import { t } from '../../../text/text'
import type { Draft, Problems } from './draft'
import { draftOf } from './draft'
import { localOf, momentOf } from './moment'
import type { Field, Member } from './schema'
import { setDraft } from './use-params'

type Shown = {
  member: Member
  path: string
  draft: Draft
  change: (draft: Draft) => void
  problems: Problems
  /** The type as its author wrote it. */
  written?: string
  /** In the place of the name, where it has none. */
  label?: string
}

/** A longer list is edited as JSON. */
const ITEMS_MAX = 50
const ROWS_MAX = 8

export function ParamField(shown: Shown): JSX.Element {
  const { member, draft } = shown
  const isLong = Array.isArray(draft) && draft.length > ITEMS_MAX
  if (member.field.kind === 'list' && !isLong) return <ListField {...shown} />
  if (member.field.kind === 'group') return <GroupField {...shown} />
  return <Leaf {...shown} />
}

function nameOf({ member, label }: Shown): string {
  return label ?? member.field.title ?? member.name
}

function Leaf(shown: Shown): JSX.Element {
  const { member, path, problems } = shown
  const id = useId()
  const problem = problems.get(path)
  const hints = { id: `${id}-hint`, problem: `${id}-problem` }
  const about = { id, 'aria-invalid': problem !== undefined, 'aria-describedby': `${hints.id} ${hints.problem}` }
  return (
    <div className="param" data-param={path}>
      {shown.member.field.kind === 'switch' && isTwoState(shown) ? (
        <span className="check">
          <Input shown={shown} about={about} />
          <label htmlFor={id} className="param-name">
            {nameOf(shown)}
          </label>
        </span>
      ) : (
        <>
          <label htmlFor={id} className="param-name">
            {nameOf(shown)}
            {member.required && <Required />}
          </label>
          <Input shown={shown} about={about} />
        </>
      )}
      <Hints shown={shown} id={hints.id} />
      <p className="problem" id={hints.problem}>
        {problem}
      </p>
    </div>
  )
}

function Required(): JSX.Element {
  return (
    <span className="required" title={t('flows.submit.required')}>
      <span aria-hidden="true"> *</span>
      <span className="unseen"> {t('flows.submit.required')}</span>
    </span>
  )
}

function Hints({ shown, id }: { shown: Shown; id: string }): JSX.Element {
  const { member, written } = shown
  const { about } = member.field
  return (
    <p className="hint" id={id}>
      {written && <code>{written}</code>}
      {written && about ? ' · ' : ''}
      {about}
    </p>
  )
}

/** Set or not: a third state needs a list. */
function isTwoState({ member, draft }: Shown): boolean {
  return !member.field.nullable && draft !== ''
}

type About = { id: string; 'aria-invalid': boolean; 'aria-describedby': string }

const TYPES: Partial<Record<Field['kind'], string>> = {
  date: 'date',
  time: 'time',
  secret: 'password',
  moment: 'datetime-local',
}

function Input({ shown, about }: { shown: Shown; about: About }): JSX.Element {
  const { member, change } = shown
  const { field } = member
  const text = typeof shown.draft === 'string' ? shown.draft : ''
  const typed = (event: ChangeEvent<HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement>) =>
    change(event.target.value)
  switch (field.kind) {
    case 'switch':
      return isTwoState(shown) ? (
        <input
          type="checkbox"
          {...about}
          checked={text === 'true'}
          onChange={(event) => change(String(event.target.checked))}
        />
      ) : (
        <Select shown={shown} about={about} options={['true', 'false'].map((one) => [one, one])} />
      )
    case 'choice': {
      const options = (field.choices ?? []).map((one, index) => [String(index), wordOf(one)] as [string, string])
      return <Select shown={shown} about={about} options={options} />
    }
    case 'moment':
      return (
        <input
          type="datetime-local"
          step="1"
          {...about}
          value={localOf(text)}
          onChange={(event) => change(momentOf(event.target.value))}
        />
      )
    case 'list':
    case 'json':
      return <JsonArea shown={shown} about={about} />
    default: {
      const lines = text.split('\n').length
      if (lines > 1)
        return (
          <textarea {...about} rows={Math.min(ROWS_MAX, lines + 1)} value={text} onChange={typed} spellCheck={false} />
        )
      const isNumber = field.kind === 'integer' || field.kind === 'number'
      return (
        <input
          type={TYPES[field.kind] ?? 'text'}
          inputMode={isNumber ? 'decimal' : undefined}
          placeholder={field.kind === 'any' ? t('form.any') : undefined}
          autoComplete="off"
          spellCheck={false}
          {...about}
          value={text}
          onChange={typed}
        />
      )
    }
  }
}

function wordOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function Select({ shown, about, options }: { shown: Shown; about: About; options: [string, string][] }): JSX.Element {
  const { member, draft, change } = shown
  const isOpen = draft === '' || member.field.nullable || !member.required
  return (
    <select {...about} value={String(draft)} onChange={(event) => change(event.target.value)}>
      {isOpen && <option value="">{t(member.required ? 'form.choose' : 'form.notSet')}</option>}
      {options.map(([value, word]) => (
        <option key={value} value={value}>
          {word}
        </option>
      ))}
    </select>
  )
}

/** Also for a long list, whose draft is read from what is typed once it is JSON. */
function JsonArea({ shown, about }: { shown: Shown; about: About }): JSX.Element {
  const { draft, change, member } = shown
  const isList = member.field.kind === 'list'
  const text = typeof draft === 'string' ? draft : JSON.stringify(draft, null, 2)
  return (
    <textarea
      {...about}
      rows={Math.min(ROWS_MAX, Math.max(3, text.split('\n').length))}
      value={text}
      readOnly={isList}
      spellCheck={false}
      onChange={(event) => change(event.target.value)}
    />
  )
}

function ListField(shown: Shown): JSX.Element {
  const { member, path, draft, change, problems } = shown
  const items = Array.isArray(draft) ? draft : []
  const item: Member = { name: '', required: member.field.item?.kind !== 'text', field: member.field.item as Field }
  const blank = () => (item.field.kind === 'group' ? setDraft(item) : draftOf(item.field, undefined))
  const name = nameOf(shown)
  return (
    <fieldset className="param group" data-param={path} aria-describedby={`${path}-problem`}>
      <legend>
        {name}
        {member.required && <Required />}
      </legend>
      <Hints shown={shown} id={`${path}-hint`} />
      {items.map((one, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: items have no names, and what is typed moves with its place
        <div className="list-item" key={index}>
          <ParamField
            member={item}
            path={`${path}.${index}`}
            label={`${name} ${index + 1}`}
            draft={one}
            change={(next) => change(items.map((old, at) => (at === index ? next : old)))}
            problems={problems}
          />
          <button
            type="button"
            className="small"
            aria-label={t('do.remove', { what: `${name} ${index + 1}` })}
            onClick={() => change(items.filter((_, at) => at !== index))}
          >
            ×
          </button>
        </div>
      ))}
      <button type="button" className="small add-item" onClick={() => change([...items, blank()])}>
        {t('form.add', { what: name })}
      </button>
      <p className="problem" id={`${path}-problem`}>
        {problems.get(path)}
      </p>
    </fieldset>
  )
}

function GroupField(shown: Shown): JSX.Element {
  const { member, path, draft, change, problems } = shown
  const isSet = typeof draft === 'object' && draft !== null && !Array.isArray(draft)
  const mayBeUnset = member.field.nullable || !member.required
  return (
    <fieldset className="param group" data-param={path}>
      <legend>
        {nameOf(shown)}
        {member.required && <Required />}
      </legend>
      <Hints shown={shown} id={`${path}-hint`} />
      {(mayBeUnset || !isSet) && (
        <label className="check">
          <input type="checkbox" checked={isSet} onChange={() => change(isSet ? null : setDraft(member))} />
          {t('form.set')}
        </label>
      )}
      {isSet &&
        (member.field.members ?? []).map((one) => (
          <ParamField
            key={one.name}
            member={one}
            path={`${path}.${one.name}`}
            draft={(draft as Record<string, Draft>)[one.name] ?? ''}
            change={(next) => change({ ...(draft as Record<string, Draft>), [one.name]: next })}
            problems={problems}
          />
        ))}
      <p className="problem">{problems.get(path)}</p>
    </fieldset>
  )
}
