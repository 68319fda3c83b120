// One question, the facts that belong to it, and its answer. The question comes first.
import { useQueryClient } from '@tanstack/react-query'
import { type JSX, useRef, useState } from 'react'
import { part, send } from '../../api/client'
import type { Approval } from '../../api/executions'
import { newKey, useDoing } from '../../live/doing'
import { now } from '../../live/now'
import { reread } from '../../live/reread'
import { Confirm } from '../../parts/confirm'
import { CopyButton } from '../../parts/copy'
import { Json } from '../../parts/json'
import { Shape } from '../../parts/status'
import { Ago, Span } from '../../parts/time'
import { say } from '../../parts/toast'
import { Wrong } from '../../parts/wrong'
import { short } from '../../text/format'
import { t } from '../../text/text'
import { focusProblem } from '../flows/form/params-field'
import { factsIn } from './answer-schema'
import { type Decision, usePayload } from './payload'
import { questionOf } from './sorting'

/** `deadline_at` and `since` are shown where they are known. */
export type Asked = Pick<Approval, 'run_id' | 'task' | 'wait_key' | 'flow_name' | 'prompt' | 'since'> & {
  deadline_at?: number | null
}

/** `onRun`: it is shown on the page of its run, which needs no link to itself. */
export function ApprovalCard({ wait, onRun = false }: { wait: Asked; onRun?: boolean }): JSX.Element {
  const question = questionOf(wait.prompt)
  return (
    <article className="card approval" data-approval={wait.task}>
      <div className="card-head">
        <h2 className="question">{question ?? t('approvals.untitled', { task: wait.task })}</h2>
        <span className="status tone-wait">
          <Shape status="WAITING" />
          <span>
            {t('approvals.waiting')} <Span from={wait.since} to={null} />
          </span>
        </span>
      </div>
      <div className="approval-of">
        <span>
          {!onRun && (
            <>
              <a href={`#/runs/${part(wait.run_id)}`}>
                {wait.flow_name} <span className="mono">{short(wait.run_id)}</span>
              </a>
              {' · '}
            </>
          )}
          {wait.task}
          {wait.deadline_at !== null && wait.deadline_at !== undefined && (
            <>
              {' · '}
              {t('approvals.deadline')}{' '}
              {wait.deadline_at < now() ? t('approvals.overdue') : <Ago at={wait.deadline_at} />}
            </>
          )}
        </span>
        <CopyButton text={linkTo(wait)} words={t('approvals.link')} />
      </div>
      <Facts prompt={wait.prompt} />
      <Answer wait={wait} />
    </article>
  )
}

/** An address that can be sent to the person who decides. */
export function linkTo({ run_id, task }: Pick<Approval, 'run_id' | 'task'>): string {
  return `${location.href.split('#', 1)[0]}#/approvals/${part(run_id)}/${part(task)}`
}

function Facts({ prompt }: { prompt: Record<string, unknown> | null }): JSX.Element | null {
  if (prompt === null) return null
  const { question } = prompt
  const rest = factsIn(prompt)
  return (
    <>
      {typeof question !== 'string' && question !== undefined && <Json value={question} label="question" />}
      {Object.keys(rest).length > 0 && (
        <dl className="facts">
          {Object.entries(rest).map(([name, value]) => (
            <div className="fact" key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === 'string' ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      )}
    </>
  )
}

function Answer({ wait }: { wait: Asked }): JSX.Element {
  const queries = useQueryClient()
  const [comment, setComment] = useState('')
  const payload = usePayload(wait.prompt)
  const [asking, setAsking] = useState<Decision | null>(null)
  const doing = useDoing()
  const [key] = useState(newKey)
  const place = useRef<HTMLFormElement>(null)
  const answer = async (decision: Decision) => {
    const body = { resumeKey: wait.wait_key, decision, ...(comment ? { comment } : {}), ...payload.read(decision) }
    await send('POST', `/executions/${part(wait.run_id)}/nodes/${part(wait.task)}/resume`, body, {
      'X-Idempotency-Key': `${key}-${decision}`,
    })
    say(t(decision === 'approve' ? 'approvals.approved' : 'approvals.rejected', { run: short(wait.run_id) }))
    await reread(queries, ['approvals'])
  }
  // What is not valid is said before anything is asked.
  const ask = (decision: Decision) =>
    doing.run(async () => {
      if (payload.read(decision) === null) focusProblem(place.current)
      else setAsking(decision)
    })
  return (
    <form className="stack" ref={place} onSubmit={(event) => event.preventDefault()}>
      {payload.field}
      <label className="field">
        {t('approvals.comment')}
        <input value={comment} maxLength={1000} onChange={(event) => setComment(event.target.value)} />
      </label>
      {doing.error !== null && <Wrong error={doing.error} />}
      <div className="buttons">
        <button type="button" className="danger" disabled={doing.busy} onClick={() => ask('reject')}>
          {t('approvals.reject')}
        </button>
        <button type="button" className="main" disabled={doing.busy} onClick={() => ask('approve')}>
          {t('approvals.approve')}
        </button>
      </div>
      {asking && (
        <Confirm
          title={t(`approvals.sure.${asking}`, { task: wait.task })}
          safe={t('approvals.keep')}
          go={t(`approvals.${asking}`)}
          goes={asking === 'approve' ? 'main' : 'danger'}
          act={() => answer(asking)}
          onClose={() => setAsking(null)}
        >
          {questionOf(wait.prompt) && <p className="question">{questionOf(wait.prompt)}</p>}
          <p>{t(`approvals.sure.${asking}Text`, { run: short(wait.run_id), flow: wait.flow_name })}</p>
          <p>{t('approvals.sure.text')}</p>
        </Confirm>
      )}
    </form>
  )
}
