// Other runs that belong to this one: the one before and after it of its flow, those that retry it, and a comparison.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useCallback } from 'react'
import { get, part } from '../../api/client'
import type { Page, Run, RunSummary } from '../../api/types'
import { reread, useOnRuns } from '../../live/reread'
import { Shape, toneOf } from '../../parts/status'
import { exact, short } from '../../text/format'
import { t, word } from '../../text/text'
import { standing } from '../runs/filters'

const READ_AGAIN_MS = 1000
const RETRIES_SHOWN = 5

/** The runs of the same flow that were submitted right before and after. */
export function Neighbours({ run }: { run: Run }): JSX.Element {
  const of = { flow: run.flow_name, limit: 1 }
  const before = useFirst(run, 'before', { ...of, submitted_before: run.submitted_at })
  const after = useFirst(run, 'after', { ...of, submitted_after: run.submitted_at, sort: 'submitted' })
  return (
    <nav className="neighbours" aria-label={t('run.neighbours')}>
      <Neighbour run={before} label={t('run.previous')} sign="M10 3 5 8l5 5" />
      <Neighbour run={after} label={t('run.next')} sign="m6 3 5 5-5 5" />
      <a className="button" href={`#/runs/${part(run.run_id)}/compare${before ? `/${part(before.run_id)}` : ''}`}>
        {t('run.compare')}
      </a>
    </nav>
  )
}

function Neighbour({ run, label, sign }: { run: RunSummary | null; label: string; sign: string }): JSX.Element {
  const arrow = (
    <svg className="arrow" viewBox="0 0 16 16" aria-hidden="true">
      <path d={sign} />
    </svg>
  )
  if (run === null)
    return (
      <button type="button" disabled aria-label={label} title={label}>
        {arrow}
      </button>
    )
  const said = `${label}: ${short(run.run_id)} · ${word(`status.${standing(run)}`, standing(run))} · ${exact(run.submitted_at)}`
  return (
    <a className="button" href={`#/runs/${part(run.run_id)}`} aria-label={label} title={said}>
      {arrow}
    </a>
  )
}

function useFirst(run: Run, kind: string, query: Record<string, string | number>): RunSummary | null {
  const page = useQuery({
    queryKey: ['neighbours', run.run_id, kind],
    queryFn: () => get<Page>('/runs', query),
  })
  useRereadFor(
    ['neighbours', run.run_id],
    useCallback((one) => one.flow_name === run.flow_name && one.run_id !== run.run_id, [run.flow_name, run.run_id]),
  )
  return page.data?.items[0] ?? null
}

/** Of a run that was run again: as what. */
export function RetriedAs({ run }: { run: Run }): JSX.Element | null {
  const page = useQuery({
    queryKey: ['retries', run.run_id],
    queryFn: () => get<Page>('/runs', { retry_of: run.run_id, limit: RETRIES_SHOWN }),
  })
  useRereadFor(
    ['retries', run.run_id],
    useCallback((one) => one.retry_of === run.run_id, [run.run_id]),
  )
  const retries = page.data?.items ?? []
  if (retries.length === 0) return null
  return (
    <div>
      <dt>{t('run.retriedAs')}</dt>
      <dd className="retries">
        {retries.map((one) => (
          <a key={one.run_id} href={`#/runs/${part(one.run_id)}`} className={`tone-${toneOf(standing(one))}`}>
            <Shape status={standing(one)} />
            <span className="mono">{short(one.run_id)}</span>
            <span className="unseen">{word(`status.${standing(one)}`, standing(one))}</span>
          </a>
        ))}
        {page.data?.next_cursor && <span>…</span>}
      </dd>
    </div>
  )
}

function useRereadFor(key: string[], concerns: (run: RunSummary) => boolean): void {
  const queries = useQueryClient()
  const text = JSON.stringify(key)
  useOnRuns(
    concerns,
    READ_AGAIN_MS,
    useCallback(() => void reread(queries, JSON.parse(text) as string[]), [queries, text]),
  )
}
