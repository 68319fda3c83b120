// Parameters, result, and a task's inputs, output and traceback.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { ApiError, get, part } from '../../api/client'
import { type Run, TERMINAL } from '../../api/types'
import { Json } from '../../parts/json'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { Span } from '../../parts/time'
import { t } from '../../text/text'
import { isTakenOver } from './fork'
import { stateOf } from './story'

export function Details({
  run,
  task,
  fork,
}: {
  run: Run
  task: string | null
  fork: (task: string) => void
}): JSX.Element {
  return (
    <div className="stack">
      <h3>{t('run.params')}</h3>
      <Json value={run.params} label={t('run.params')} />
      <h3>{t('run.result')}</h3>
      <Result run={run} />
      {task ? <Task run={run} name={task} fork={fork} /> : <p className="faint-text">{t('run.select')}</p>}
    </div>
  )
}

function Result({ run }: { run: Run }): JSX.Element {
  const result = useQuery({
    queryKey: ['result', run.run_id],
    queryFn: () => get<unknown>(`/runs/${part(run.run_id)}/result`),
    enabled: run.status === 'COMPLETED',
  })
  if (result.isSuccess) return <Json value={result.data} label={t('run.result')} />
  const none = result.error instanceof ApiError && result.error.status === 404
  return none || run.status !== 'COMPLETED' ? (
    <p className="faint-text">{t(TERMINAL.has(run.status) ? 'run.noResultEver' : 'run.noResult')}</p>
  ) : (
    <Reading query={result} />
  )
}

function Task({ run, name, fork }: { run: Run; name: string; fork: (task: string) => void }): JSX.Element | null {
  const record = run.task_records?.[name]
  if (!record) return null
  return (
    <section className="stack" aria-label={t('run.task', { task: name })}>
      <h3>{t('run.task', { task: name })}</h3>
      <p>
        <Status status={stateOf(run, name)} /> · {t('run.attempt', { n: record.attempt })} ·{' '}
        <Span from={record.started_at} to={record.ended_at} />
        {isTakenOver(run, name) && <> · {t('run.takenOver')}</>}
        {record.by && <> · {t('acts.by', { by: record.by })}</>}
      </p>
      {record.comment && <blockquote className="comment">{record.comment}</blockquote>}
      {TERMINAL.has(run.status) && (
        <p>
          <button type="button" className="small" onClick={() => fork(name)}>
            {t('run.fork')}
          </button>
        </p>
      )}
      <h3>{t('run.inputs')}</h3>
      <Json value={record.inputs} label={t('run.inputs')} />
      <h3>{t('run.output')}</h3>
      <Json value={record.output} label={t('run.output')} />
      {record.error && (
        <pre className="wrong" tabIndex={0}>
          {record.traceback ?? record.error}
        </pre>
      )}
    </section>
  )
}
