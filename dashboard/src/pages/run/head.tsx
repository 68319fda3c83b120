// What a run is, in one line or two: status, spans, worker, tags.
import { type JSX, useState } from 'react'
import { ask, part, send } from '../../api/client'
import type { Run } from '../../api/types'
import { useDoing } from '../../live/doing'
import { CopyButton } from '../../parts/copy'
import { Status } from '../../parts/status'
import { Ago, Span } from '../../parts/time'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { short } from '../../text/format'
import { t } from '../../text/text'
import { Failure } from './failure'
import { type Loss, standingOf } from './loss'
import { RetriedAs } from './neighbours'

export function Head({ run, loss }: { run: Run; loss: Loss | null }): JSX.Element {
  return (
    <div className="run-head">
      <span className="run-status">
        <Status status={standingOf(run, loss)} />
      </span>
      <dl>
        <Fact name={t('runs.id')}>
          <span className="mono" title={run.run_id}>
            {run.run_id}
          </span>{' '}
          <CopyButton text={run.run_id} label={`${t('do.copy')} ${run.run_id}`} />
        </Fact>
        <Fact name={t('run.submitted')}>
          <Ago at={run.submitted_at} />
        </Fact>
        <Fact name={t('run.waited')}>
          <Span from={run.submitted_at} to={run.start_time ?? run.end_time} />
        </Fact>
        {run.start_time !== null && (
          <Fact name={t(loss ? 'run.ranUntilLoss' : run.end_time === null ? 'run.running' : 'run.ran')}>
            <Span from={run.start_time} to={loss?.at ?? run.end_time} />
          </Fact>
        )}
        {run.worker_id && (
          <Fact name={t('run.worker')}>
            <a href="#/workers">{run.worker_id}</a>
          </Fact>
        )}
        <Fact name={t('run.tag')}>
          <span className="tag">{run.tag}</span>
        </Fact>
        {run.retry_of && (
          <Fact name={t('run.retryOf')}>
            <a className="mono" href={`#/runs/${part(run.retry_of)}`}>
              {short(run.retry_of)}
            </a>
            {run.retry_from !== undefined && <span> {t('run.retryFrom', { task: run.retry_from })}</span>}
          </Fact>
        )}
        <RetriedAs run={run} />
        {run.schedule_id && (
          <Fact name={t('run.schedule')}>
            <a href="#/schedules" className="mono">
              {short(run.schedule_id)}
            </a>
          </Fact>
        )}
        <Fact name={t('run.tags')}>
          <Tags run={run} />
        </Fact>
      </dl>
      <Failure run={run} />
    </div>
  )
}

function Fact({ name, children }: { name: string; children: React.ReactNode }): JSX.Element {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function Tags({ run }: { run: Run }): JSX.Element {
  const [text, setText] = useState('')
  const doing = useDoing()
  const act = (send: () => Promise<unknown>) =>
    doing.run(() => send().catch((error: unknown) => say(sentence(error), true)))
  const add = () => {
    if (text.trim() === '') return
    // What was refused stays in the field.
    act(() => send('POST', `/jobs/${part(run.run_id)}/tags`, { tag: text.trim() }).then(() => setText('')))
  }
  return (
    <span className="tags-edit">
      {run.tags.map((tag) => (
        <span key={tag} className="tag">
          {tag}
          <button
            type="button"
            className="tag-remove"
            aria-label={t('do.remove', { what: tag })}
            onClick={() => act(() => ask(`/jobs/${part(run.run_id)}/tags/${part(tag)}`, { method: 'DELETE' }))}
          >
            ×
          </button>
        </span>
      ))}
      <input
        className="tag-input"
        value={text}
        aria-label={t('run.addTag')}
        placeholder={`+ ${t('run.addTag')}`}
        maxLength={64}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => event.key === 'Enter' && add()}
        onBlur={add}
      />
    </span>
  )
}
