// What the list is narrowed to and sorted by: a search, and one field for each word of the address.
import { useQuery } from '@tanstack/react-query'
import { type JSX, type RefObject, useEffect, useMemo, useRef, useState } from 'react'
import { get } from '../../api/client'
import type { KnownFlow } from '../../api/types'
import { useKeys } from '../../live/keys'
import { useNarrow } from '../../live/narrow'
import { rewrite, usePlace } from '../../live/place'
import { type Key, t } from '../../text/text'
import { type Filters, filtersIn, orderOf, SINCE } from './filters'
import { ORDERS } from './order'
import { fieldOf, wordOf } from './submitted'

/** `isOfList`: the list has an order and a time that can be chosen; the timeline has a window of its own. */
export function Narrow({ isOfList }: { isOfList: boolean }): JSX.Element {
  const { query } = usePlace()
  const filters = filtersIn(query)
  const search = useRef<HTMLInputElement>(null)
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows'), staleTime: 30_000 })
  useKeys(useMemo(() => ({ '/': () => search.current?.focus() }), []))
  const tags = [
    ...new Set((flows.data ?? []).flatMap((flow) => [...flow.tags, flow.last_tag ?? ''])),
    filters.tag,
  ].filter(Boolean)
  const names = [...new Set([...(flows.data ?? []).map((flow) => flow.flow_name), filters.flow])].filter(Boolean)
  const isNarrow = useNarrow()
  const [isOpen, setIsOpen] = useState(false)
  const number = ['flow', 'tag', 'since', 'submitted', 'from', 'to', 'sort'].filter((name) => query.get(name)).length
  const isShown = !isNarrow || isOpen
  return (
    <form className="narrow" role="search" onSubmit={(event) => event.preventDefault()}>
      <Search initial={filters.q} field={search} />
      {isNarrow && (
        <button type="button" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
          {number ? t('runs.filtersChosen', { n: number }) : t('runs.filters')}
        </button>
      )}
      {isShown && (
        <>
          <Choice label={t('runs.flow')} name="flow" value={filters.flow} options={plain(names)} />
          <Choice label={t('runs.tag')} name="tag" value={filters.tag} options={plain([...new Set(tags)])} />
          {isOfList && <When filters={filters} />}
          {isOfList && <Sort filters={filters} />}
        </>
      )}
    </form>
  )
}

/** A range of submissions is sorted by submission or duration. */
function Sort({ filters }: { filters: Filters }): JSX.Element {
  const order = orderOf(filters)
  const hasRange = order !== '' && orderOf({ ...filters, sort: '' }) !== ''
  return (
    <label>
      <span>{t('runs.sort')}</span>
      <select value={order} onChange={(event) => rewrite({ sort: event.target.value })}>
        {!hasRange && <option value="">{t('runs.sort.-updated')}</option>}
        {ORDERS.map((one) => (
          <option key={one} value={one}>
            {t(`runs.sort.${one}` as Key)}
          </option>
        ))}
      </select>
    </label>
  )
}

const plain = (names: string[]): Option[] => names.map((name) => [name, name])

const RANGE = 'range'
const CLEARED = { since: null, submitted: null, from: null, to: null }

/** By the last change or by the submission, relative to now; or submitted between two instants. */
function When({ filters }: { filters: Filters }): JSX.Element {
  const [isOpen, setIsOpen] = useState(false)
  const hasRange = filters.from !== '' || filters.to !== '' || isOpen
  const value = hasRange ? RANGE : (namedIn(filters) ?? '')
  const choose = (chosen: string) => {
    setIsOpen(chosen === RANGE)
    const [name, of] = chosen.split(' ')
    rewrite(of && name ? { ...CLEARED, [name]: of } : CLEARED)
  }
  return (
    <>
      <label>
        <span>{t('runs.time')}</span>
        <select value={value} onChange={(event) => choose(event.target.value)}>
          <option value="">{t('runs.time.any')}</option>
          {(['submitted', 'since'] as const).map((name) => (
            <optgroup key={name} label={t(name === 'since' ? 'runs.time.changed' : 'runs.started')}>
              {Object.keys(SINCE).map((one) => (
                <option key={one} value={`${name} ${one}`}>
                  {t(`runs.time.${name === 'since' ? 'c' : 's'}.${one}` as Key)}
                </option>
              ))}
              {name === 'submitted' && <option value={RANGE}>{t('runs.time.range')}</option>}
            </optgroup>
          ))}
        </select>
      </label>
      {hasRange && (
        <span className="range">
          <Instant label={t('runs.time.from')} name="from" word={filters.from} />
          <Instant label={t('runs.time.to')} name="to" word={filters.to} />
        </span>
      )}
    </>
  )
}

function namedIn(filters: Filters): string | null {
  if (filters.submitted) return `submitted ${filters.submitted}`
  return filters.since ? `since ${filters.since}` : null
}

function Instant({ label, name, word }: { label: string; name: 'from' | 'to'; word: string }): JSX.Element {
  return (
    <label>
      <span>{label}</span>
      <input
        type="datetime-local"
        defaultValue={fieldOf(word)}
        key={word}
        onChange={(event) => rewrite({ since: null, submitted: null, [name]: wordOf(event.target.value) })}
      />
    </label>
  )
}

const TYPING_MS = 250

function Search({ initial, field }: { initial: string; field: RefObject<HTMLInputElement | null> }): JSX.Element {
  const [text, setText] = useState(initial)
  useEffect(() => setText(initial), [initial])
  useEffect(() => {
    if (text === initial) return
    const timer = setTimeout(() => rewrite({ q: text }), TYPING_MS)
    return () => clearTimeout(timer)
  }, [text, initial])
  return (
    <input
      ref={field}
      type="search"
      className="search"
      value={text}
      placeholder={t('runs.search')}
      aria-label={t('runs.search')}
      onChange={(event) => setText(event.target.value)}
      onKeyDown={(event) => event.key === 'Escape' && event.currentTarget.blur()}
    />
  )
}

type Option = [string, string]

function Choice(props: { label: string; name: string; value: string; options: Option[] }): JSX.Element {
  return (
    <label>
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => rewrite({ [props.name]: event.target.value })}>
        <option value="">{t('runs.all')}</option>
        {props.options.map(([value, said]) => (
          <option key={value} value={value}>
            {said}
          </option>
        ))}
      </select>
    </label>
  )
}
