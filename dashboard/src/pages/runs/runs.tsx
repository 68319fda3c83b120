// All runs: live, narrowed by the address, in any number.
import { type JSX, useCallback, useMemo, useState } from 'react'
import { usePlace } from '../../live/place'
import { Empty } from '../../parts/empty'
import { LeftOut } from '../../parts/notice'
import { Page } from '../../parts/page'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { Start } from '../start/start'
import { Bulk } from './bulk'
import { Counts } from './counts'
import { type Filters, filtersIn, isNarrowed, orderOf, unknownIn } from './filters'
import { Hour } from './hour'
import { Narrow } from './narrow'
import { SavedViews } from './saved-views'
import { Table } from './table'
import { ShowAs, Timeline } from './timeline/timeline'
import { useRunList } from './use-run-list'

const NONE: ReadonlySet<string> = new Set()

export function Runs(): JSX.Element {
  const { query } = usePlace()
  const filters = useMemo(() => filtersIn(query), [query])
  const isTimeline = query.get('show') === 'timeline'
  return (
    <Page
      title={t('runs.title')}
      className="runs"
      actions={
        <>
          <ShowAs isTimeline={isTimeline} />
          <Hour />
          <SavedViews />
          <a className="button main" href="#/flows">
            {t('runs.start')}
          </a>
        </>
      }
    >
      <Counts status={filters.status} />
      <Narrow isOfList={!isTimeline} />
      <LeftOut words={unknownIn(query)} clear="#/runs" />
      {isTimeline ? <Timeline filters={filters} /> : <List filters={filters} />}
    </Page>
  )
}

function List({ filters }: { filters: Filters }): JSX.Element {
  const list = useRunList(filters)
  // What was selected among other rows is not selected any more.
  const [chosen, setChosen] = useState({ of: filters, ids: NONE })
  const selected = chosen.of === filters ? chosen.ids : NONE
  const select = useCallback((ids: ReadonlySet<string>) => setChosen({ of: filters, ids }), [filters])
  const { rows, whole, loading, error, fresh, freshMore } = list.shown
  const narrowed = isNarrowed(filters)
  const nothing = rows.length === 0 && whole && !loading
  return (
    <>
      {selected.size > 0 && <Bulk selected={selected} rows={rows} done={() => select(NONE)} />}
      {error ? <Wrong error={error} again={list.again} /> : null}
      {nothing && narrowed && (
        <Empty title={t('runs.none.title')} text={t('runs.none.text')}>
          <a className="button" href="#/runs">
            {t('runs.clear')}
          </a>
        </Empty>
      )}
      {nothing && !narrowed && <Start />}
      {!nothing && (
        <Table
          rows={rows}
          fresh={fresh}
          freshMore={freshMore}
          whole={whole}
          loading={loading}
          list={list}
          sort={orderOf(filters)}
          selected={selected}
          select={select}
        />
      )}
    </>
  )
}
