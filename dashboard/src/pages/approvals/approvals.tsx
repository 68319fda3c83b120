// Everything that waits for a person, answered in place, also on a phone; and the history of answers.
import type { JSX } from 'react'
import type { Run } from '../../api/types'
import { rewrite, usePlace } from '../../live/place'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { number } from '../../text/format'
import { t } from '../../text/text'
import { ApprovalCard } from './card'
import { History } from './history'
import { matches, ORDERS, type Order, orderOf, sorted } from './sorting'
import { itemsOf, useApprovals } from './waiting'

// A pause needs nobody.
const SLEEP = 'sleep:'
const EXAMPLE = 'flow >> build >> approval("release", prompt={"question": "Deploy it?"}) >> deploy'
// With fewer there is nothing to search.
const SEARCHED_FROM = 2

export default function Approvals(): JSX.Element {
  const { query } = usePlace()
  const list = useApprovals()
  const history = query.get('view') === 'history'
  const search = query.get('q') ?? ''
  const count = itemsOf(list.data).length
  return (
    <Page title={t('approvals.title')}>
      <div className="narrow">
        <div className="counts" role="group" aria-label={t('approvals.views')}>
          <button type="button" aria-pressed={!history} onClick={() => rewrite({ view: null })}>
            {t('approvals.open')} <b>{`${number(count)}${list.hasNextPage ? '+' : ''}`}</b>
          </button>
          <button type="button" aria-pressed={history} onClick={() => rewrite({ view: 'history' })}>
            {t('approvals.history')}
          </button>
        </div>
        {(history || count >= SEARCHED_FROM || search) && (
          <input
            type="search"
            className="search"
            value={search}
            placeholder={t('approvals.search')}
            aria-label={t('approvals.search')}
            onChange={(event) => rewrite({ q: event.target.value })}
          />
        )}
        {!history && count >= SEARCHED_FROM && <Sorting order={orderOf(query.get('sort'))} />}
      </div>
      {history ? <History search={search} /> : <Open list={list} search={search} order={orderOf(query.get('sort'))} />}
    </Page>
  )
}

function Sorting({ order }: { order: Order }): JSX.Element {
  return (
    <label>
      <span>{t('approvals.sort')}</span>
      <select value={order} onChange={(event) => rewrite({ sort: event.target.value })}>
        {ORDERS.map((one) => (
          <option key={one} value={one}>
            {t(`approvals.sort.${one}`)}
          </option>
        ))}
      </select>
    </label>
  )
}

type Opened = { list: ReturnType<typeof useApprovals>; search: string; order: Order }

function Open({ list, search, order }: Opened): JSX.Element {
  const all = itemsOf(list.data)
  const shown = sorted(
    all.filter((one) => matches(one, search)),
    order,
  )
  return (
    <>
      <Reading query={list} />
      {list.data && all.length === 0 && (
        <Empty title={t('approvals.none.title')} text={t('approvals.none.text')} command={EXAMPLE} />
      )}
      {all.length > 0 && shown.length === 0 && <p className="empty">{t('approvals.none.match')}</p>}
      <div className="cards">
        {shown.map((one) => (
          <ApprovalCard key={`${one.run_id} ${one.task} ${one.since}`} wait={one} />
        ))}
      </div>
      {list.hasNextPage && (
        <button type="button" onClick={() => void list.fetchNextPage()}>
          {t('do.more')}
        </button>
      )}
    </>
  )
}

/** The same on the page of the run itself. */
export function RunWaits({ run }: { run: Run }): JSX.Element | null {
  const waits = Object.entries(run.task_records ?? {}).flatMap(([task, { wait }]) =>
    wait && !wait.key.startsWith(SLEEP) ? [{ task, wait }] : [],
  )
  if (waits.length === 0) return null
  return (
    <div className="cards">
      {waits.map(({ task, wait }) => {
        const { run_id, flow_name } = run
        const { key: wait_key, since, prompt = null } = wait
        return <ApprovalCard key={task} onRun wait={{ run_id, flow_name, task, wait_key, since, prompt }} />
      })}
    </div>
  )
}
