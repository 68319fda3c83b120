// Strategies and their health; recheck some or all, and watch it go.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { ApiError, get } from '../../api/client'
import type { Strategy, StrategyPage } from '../../api/recheck'
import { rewrite, usePlace } from '../../live/place'
import { useReread } from '../../live/reread'
import { Empty } from '../../parts/empty'
import { LeftOut } from '../../parts/notice'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { SignIn } from '../../shell/sign-in'
import { instant, number } from '../../text/format'
import { t } from '../../text/text'
import { Health } from './health'
import { Recheck } from './recheck'
import { Request } from './request'
import { Results } from './results'

const PAGE_SIZE = 50
const HEALTHS = ['healthy', 'degraded', 'unknown'] as const

export default function Strategies(): JSX.Element {
  const { query } = usePlace()
  const { page, health, unknown } = wordsIn(query)
  const words = { q: query.get('q') ?? '', health, page, page_size: PAGE_SIZE }
  const list = useQuery({
    queryKey: ['strategies', words],
    queryFn: () => get<StrategyPage>('/gui/strategies', words),
    placeholderData: (before) => before,
  })
  useReread('strategies', ['strategies'])
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [asking, setAsking] = useState<string[] | 'all' | null>(null)
  const [looking, setLooking] = useState<string | null>(null)
  const requests = (query.get('requests') ?? '').split(' ').filter(Boolean)
  const refused = list.error instanceof ApiError && (list.error.status === 401 || list.error.status === 403)
  const pages = Math.max(1, Math.ceil((list.data?.total ?? 0) / PAGE_SIZE))
  const actions = list.data && list.data.total > 0 && (
    <>
      {selected.size > 0 && (
        <button type="button" className="main" onClick={() => setAsking([...selected])}>
          {t('strategies.recheck', { n: selected.size })}
        </button>
      )}
      <button type="button" onClick={() => setAsking('all')}>
        {t('strategies.recheckAll')}
      </button>
    </>
  )
  return (
    <Page title={t('strategies.title')} actions={actions}>
      {requests.map((id) => (
        <Request key={id} id={id} close={() => rewrite({ requests: requests.filter((one) => one !== id).join(' ') })} />
      ))}
      <div className="narrow" role="search">
        <input
          type="search"
          className="search"
          defaultValue={words.q}
          maxLength={64}
          placeholder={t('strategies.search')}
          aria-label={t('strategies.search')}
          onChange={(event) => rewrite({ q: event.target.value, page: null })}
        />
        <label>
          <span>{t('strategies.health')}</span>
          <select value={words.health} onChange={(event) => rewrite({ health: event.target.value, page: null })}>
            <option value="">{t('runs.all')}</option>
            {HEALTHS.map((one) => (
              <option key={one} value={one}>
                {t(`strategies.health.${one}`)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <LeftOut words={unknown} clear="#/strategies" />
      {refused && <SignIn error={list.error as ApiError} intro={t('strategies.signIn')} />}
      {!refused && <Reading query={list} />}
      {list.data?.total === 0 && (
        <Empty
          title={t('strategies.none.title')}
          text={t('strategies.none.text')}
          command="pyoco-server-admin strategy import strategies.yaml"
        />
      )}
      {list.data && list.data.total > 0 && (
        <List items={list.data.items} selected={selected} select={setSelected} look={setLooking} />
      )}
      {pages > 1 && (
        <div className="actions">
          <button type="button" disabled={page <= 1} onClick={() => rewrite({ page: String(page - 1) })}>
            {t('strategies.previous')}
          </button>
          <span>{t('strategies.page', { page: number(page), pages: number(pages) })}</span>
          <button type="button" disabled={page >= pages} onClick={() => rewrite({ page: String(page + 1) })}>
            {t('strategies.next')}
          </button>
        </div>
      )}
      {asking && (
        <Recheck
          which={asking}
          onClose={() => setAsking(null)}
          onStarted={(id) => {
            setAsking(null)
            setSelected(new Set())
            rewrite({ requests: [id, ...requests].slice(0, 5).join(' ') })
          }}
        />
      )}
      {looking && <Results id={looking} onClose={() => setLooking(null)} />}
    </Page>
  )
}

/** Only what means something here; the rest is named. */
function wordsIn(query: URLSearchParams): { page: number; health: string; unknown: string[] } {
  const asked = { page: query.get('page') ?? '1', health: query.get('health') ?? '' }
  const page = /^[1-9]\d{0,8}$/.test(asked.page) ? Number(asked.page) : null
  const health = HEALTHS.find((one) => one === asked.health) ?? ''
  const unknown = [
    ...(page === null ? [`page=${asked.page}`] : []),
    ...(health === asked.health ? [] : [`health=${asked.health}`]),
  ]
  return { page: page ?? 1, health, unknown }
}

function List(props: {
  items: Strategy[]
  selected: ReadonlySet<string>
  select: (next: ReadonlySet<string>) => void
  look: (id: string) => void
}): JSX.Element {
  const toggle = (id: string) => {
    const next = new Set(props.selected)
    if (!next.delete(id)) next.add(id)
    props.select(next)
  }
  return (
    <TableBox label={t('strategies.title')}>
      <thead>
        <tr>
          <th scope="col">
            <span className="unseen">{t('keys.select')}</span>
          </th>
          <th scope="col">{t('strategies.id')}</th>
          <th scope="col">{t('strategies.health')}</th>
          <th scope="col">{t('strategies.instrument')}</th>
          <th scope="col">{t('run.tags')}</th>
          <th scope="col">{t('strategies.checked')}</th>
          <th scope="col">{t('strategies.enabled')}</th>
        </tr>
      </thead>
      <tbody>
        {props.items.map((one) => (
          <tr key={one.id} data-strategy={one.id}>
            <td>
              <input
                type="checkbox"
                disabled={!one.enabled}
                checked={props.selected.has(one.id)}
                aria-label={one.id}
                onChange={() => toggle(one.id)}
              />
            </td>
            <td>
              <button type="button" className="plain link" onClick={() => props.look(one.id)}>
                <b>{one.id}</b>
              </button>
              <small>{one.title}</small>
            </td>
            <td className="nowrap">
              <Health health={one.last_health} />
            </td>
            <td>{one.instrument ?? '–'}</td>
            <td>
              {one.tags.map((tag) => (
                <span key={tag} className="tag">
                  {tag}
                </span>
              ))}
            </td>
            <td className="nowrap">
              <Ago at={instant(one.last_checked_at)} />
            </td>
            <td>{one.enabled ? t('do.yes') : t('do.no')}</td>
          </tr>
        ))}
      </tbody>
    </TableBox>
  )
}
