// All runs: live, narrowed by the address, in any number.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useCallback, useEffect, useMemo, useRef, useState } from 'react'
import { get } from '../../api/client'
import type { KnownFlow } from '../../api/types'
import { useKeys } from '../../live/keys'
import { rewrite, usePlace } from '../../live/place'
import { clientCommand } from '../../parts/copy'
import { Empty } from '../../parts/empty'
import { LeftOut } from '../../parts/notice'
import { Page } from '../../parts/page'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { Bulk } from './bulk'
import { Counts } from './counts'
import { filtersIn, isNarrowed, SINCE, unknownIn } from './filters'
import { Hour } from './hour'
import { Table } from './table'
import { useRunList } from './use-run-list'

const DEMO = 'submit --flow-name hello --tag demo --param name=you --wait'

const NONE: ReadonlySet<string> = new Set()

export function Runs(): JSX.Element {
  const { query } = usePlace()
  const filters = useMemo(() => filtersIn(query), [query])
  const unknown = unknownIn(query)
  const list = useRunList(filters)
  // What was selected among other rows is not selected any more.
  const [chosen, setChosen] = useState({ of: filters, ids: NONE })
  const selected = chosen.of === filters ? chosen.ids : NONE
  const select = useCallback((ids: ReadonlySet<string>) => setChosen({ of: filters, ids }), [filters])
  const { rows, whole, loading, error, fresh, freshMore } = list.shown
  const narrowed = isNarrowed(filters)
  const nothing = rows.length === 0 && whole && !loading
  return (
    <Page
      title={t('runs.title')}
      className="runs"
      actions={
        <>
          <Hour />
          <a className="button main" href="#/flows">
            {t('runs.start')}
          </a>
        </>
      }
    >
      <Counts status={filters.status} />
      <Narrow />
      {selected.size > 0 && <Bulk selected={selected} rows={rows} done={() => select(NONE)} />}
      <LeftOut words={unknown} clear="#/runs" />
      {error ? <Wrong error={error} again={list.again} /> : null}
      {nothing && narrowed && (
        <Empty title={t('runs.none.title')} text={t('runs.none.text')}>
          <a className="button" href="#/runs">
            {t('runs.clear')}
          </a>
        </Empty>
      )}
      {nothing && !narrowed && (
        <Empty title={t('runs.empty.title')} text={t('runs.empty.text')} command={clientCommand(DEMO)} />
      )}
      {!nothing && (
        <Table
          rows={rows}
          fresh={fresh}
          freshMore={freshMore}
          whole={whole}
          loading={loading}
          list={list}
          selected={selected}
          select={select}
        />
      )}
    </Page>
  )
}

function Narrow(): JSX.Element {
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
  return (
    <form className="narrow" role="search" onSubmit={(event) => event.preventDefault()}>
      <Search initial={filters.q} field={search} />
      <Choice label={t('runs.flow')} name="flow" value={filters.flow} options={names} />
      <Choice label={t('runs.tag')} name="tag" value={filters.tag} options={[...new Set(tags)]} />
      <label>
        <span>{t('runs.time')}</span>
        <select value={filters.since} onChange={(event) => rewrite({ since: event.target.value })}>
          <option value="">{t('runs.time.any')}</option>
          {Object.keys(SINCE).map((one) => (
            <option key={one} value={one}>
              {t(`runs.time.${one}` as 'runs.time.hour')}
            </option>
          ))}
        </select>
      </label>
    </form>
  )
}

const TYPING_MS = 250

function Search({ initial, field }: { initial: string; field: React.RefObject<HTMLInputElement | null> }): JSX.Element {
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

function Choice(props: { label: string; name: string; value: string; options: string[] }): JSX.Element {
  return (
    <label>
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => rewrite({ [props.name]: event.target.value })}>
        <option value="">{t('runs.all')}</option>
        {props.options.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  )
}
