// A recheck under way: how far it is, read again whenever one of its batches has an outcome.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Fragment, type JSX, useEffect } from 'react'
import { get, part } from '../../api/client'
import type { RecheckRequest } from '../../api/recheck'
import { reread, useReread } from '../../live/reread'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { short } from '../../text/format'
import { t } from '../../text/text'

const SHAPES = { running: 'RUNNING', success: 'COMPLETED', failed: 'FAILED' } as const

export function Request({ id, close }: { id: string; close: () => void }): JSX.Element {
  const queries = useQueryClient()
  const request = useQuery({
    queryKey: ['recheck', id],
    queryFn: () => get<RecheckRequest>(`/gui/requests/${part(id)}`),
  })
  const status = request.data?.status
  useReread('strategies', ['recheck', id])
  useEffect(() => {
    if (status && status !== 'running') void reread(queries, ['strategies'])
  }, [status, queries])
  if (!request.data) return <Reading query={request} />
  const { progress } = request.data
  return (
    <section className="card progress-list" data-request={id} aria-label={t('strategies.recheckTitle')}>
      <div className="card-head">
        <span>
          <Status status={SHAPES[request.data.status]} /> <span className="mono faint-text">{id}</span>
        </span>
        <button type="button" className="plain small" aria-label={t('do.close')} onClick={close}>
          ×
        </button>
      </div>
      <progress
        max={Math.max(1, progress.total_strategies)}
        value={progress.completed_strategies}
        aria-label={t('strategies.progress', { done: progress.completed_strategies, all: progress.total_strategies })}
      />
      <p role="status">
        {t('strategies.progress', { done: progress.completed_strategies, all: progress.total_strategies })} ·{' '}
        {t('strategies.batches', { done: progress.completed_batches, all: progress.total_batches })}
        {(request.data.dag?.run_ids ?? []).slice(0, 8).map((run) => (
          <Fragment key={run}>
            {' '}
            <a className="mono" href={`#/runs/${part(run)}`}>
              {short(run)}
            </a>
          </Fragment>
        ))}
      </p>
    </section>
  )
}
