// Everything that waits for a person, the longest first; answered in place, also on a phone.
import { useQueryClient } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Approval } from '../../api/executions'
import type { Run } from '../../api/types'
import { newKey, useDoing } from '../../live/doing'
import { now } from '../../live/now'
import { reread } from '../../live/reread'
import { Empty } from '../../parts/empty'
import { Json } from '../../parts/json'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Shape } from '../../parts/status'
import { Ago, Span } from '../../parts/time'
import { say } from '../../parts/toast'
import { Wrong } from '../../parts/wrong'
import { short } from '../../text/format'
import { t } from '../../text/text'
import { itemsOf, useApprovals } from './waiting'

// A pause needs nobody.
const SLEEP = 'sleep:'
const EXAMPLE = 'flow >> build >> approval("release", prompt={"question": "Deploy it?"}) >> deploy'

export default function Approvals(): JSX.Element {
  const list = useApprovals()
  const items = itemsOf(list.data)
  return (
    <Page title={t('approvals.title')}>
      <Reading query={list} />
      {list.data && items.length === 0 && (
        <Empty title={t('approvals.none.title')} text={t('approvals.none.text')} command={EXAMPLE} />
      )}
      <div className="cards">
        {items.map((one) => (
          <Card key={`${one.run_id} ${one.task} ${one.since}`} wait={one} />
        ))}
      </div>
      {list.hasNextPage && (
        <button type="button" onClick={() => void list.fetchNextPage()}>
          {t('do.more')}
        </button>
      )}
    </Page>
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
      {waits.map(({ task, wait }) => (
        <article key={task} className="card approval" data-approval={task}>
          <div className="card-head">
            <h2>{task}</h2>
            <Waiting since={wait.since} />
          </div>
          <Prompt prompt={wait.prompt ?? null} />
          <Answer wait={{ run_id: run.run_id, task, wait_key: wait.key }} />
        </article>
      ))}
    </div>
  )
}

function Card({ wait }: { wait: Approval }): JSX.Element {
  return (
    <article className="card approval" data-approval={wait.task}>
      <div className="card-head">
        <h2>{wait.task}</h2>
        <Waiting since={wait.since} />
      </div>
      <p className="faint-text">
        <a href={`#/runs/${part(wait.run_id)}`}>
          {wait.flow_name} <span className="mono">{short(wait.run_id)}</span>
        </a>
        {wait.deadline_at !== null && (
          <>
            {' '}
            · {t('approvals.deadline')}{' '}
            {wait.deadline_at < now() ? t('approvals.overdue') : <Ago at={wait.deadline_at} />}
          </>
        )}
      </p>
      <Prompt prompt={wait.prompt} />
      <Answer wait={wait} />
    </article>
  )
}

/** For how long: that is what whoever answers wants to know first. */
function Waiting({ since }: { since: number }): JSX.Element {
  return (
    <span className="status tone-wait">
      <Shape status="WAITING" /> {t('approvals.waiting')} <Span from={since} to={null} />
    </span>
  )
}

/** A question in words where there is one; the rest as it is. */
function Prompt({ prompt }: { prompt: Record<string, unknown> | null }): JSX.Element | null {
  if (prompt === null) return null
  const { question, ...rest } = prompt
  return (
    <>
      {typeof question === 'string' && <p className="question">{question}</p>}
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

export function Answer({ wait }: { wait: Pick<Approval, 'run_id' | 'task' | 'wait_key'> }): JSX.Element {
  const queries = useQueryClient()
  const [comment, setComment] = useState('')
  const [payload, setPayload] = useState<string | null>(null)
  const doing = useDoing()
  const [key] = useState(newKey)
  const answer = async (decision: 'approve' | 'reject') => {
    const body = {
      resumeKey: wait.wait_key,
      decision,
      ...(comment ? { comment } : {}),
      ...(payload?.trim() ? { payload: read(payload) } : {}),
    }
    await send('POST', `/executions/${part(wait.run_id)}/nodes/${part(wait.task)}/resume`, body, {
      'X-Idempotency-Key': `${key}-${decision}`,
    })
    say(t(decision === 'approve' ? 'approvals.approved' : 'approvals.rejected', { run: short(wait.run_id) }))
    await reread(queries, ['approvals'])
  }
  return (
    <form className="stack" onSubmit={(event) => event.preventDefault()}>
      <label className="field">
        {t('approvals.comment')}
        <input value={comment} maxLength={1000} onChange={(event) => setComment(event.target.value)} />
      </label>
      {payload === null ? (
        <button type="button" className="plain add-payload" onClick={() => setPayload('')}>
          {t('approvals.more')}
        </button>
      ) : (
        <label className="field">
          {t('approvals.payload')}
          <textarea value={payload} spellCheck={false} onChange={(event) => setPayload(event.target.value)} />
        </label>
      )}
      {doing.error !== null && <Wrong error={doing.error} />}
      <div className="buttons">
        <button
          type="button"
          className="danger"
          disabled={doing.busy}
          onClick={() => doing.run(() => answer('reject'))}
        >
          {t('approvals.reject')}
        </button>
        <button type="button" className="main" disabled={doing.busy} onClick={() => doing.run(() => answer('approve'))}>
          {t('approvals.approve')}
        </button>
      </div>
    </form>
  )
}

function read(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Error(t('approvals.badJson', { why: (error as Error).message }))
  }
}
