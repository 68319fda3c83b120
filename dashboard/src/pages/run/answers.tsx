// Who answered the approvals of a run, when, and with which comment.
import type { JSX } from 'react'
import type { ExecutionEvent } from '../../api/executions'
import { Status } from '../../parts/status'
import { Ago } from '../../parts/time'
import { t } from '../../text/text'

const RESUMED = 'NODE_RESUMED'
const WAITING = 'NODE_WAITING'
const SLEEP = 'sleep:'

export type GivenAnswer = {
  seq: number
  at: number
  task: string
  rejected: boolean
  by: string | null
  comment: string | null
}

/** The answers in the order of the log. The end of a sleep is no answer. */
export function answersOf(events: ExecutionEvent[]): GivenAnswer[] {
  const sleeping = new Set<string>()
  const answers: GivenAnswer[] = []
  for (const { type, seq, occurredAt, payload } of events) {
    const task = payload.nodeId ?? ''
    if (type === WAITING && payload.waitKey?.startsWith(SLEEP)) sleeping.add(task)
    if (type !== RESUMED || sleeping.has(task)) continue
    answers.push({
      seq,
      at: Date.parse(occurredAt) / 1000,
      task,
      rejected: payload.decision === 'reject',
      by: payload.by ?? null,
      comment: payload.comment ?? null,
    })
  }
  return answers
}

export function Answers({ events }: { events: ExecutionEvent[] }): JSX.Element | null {
  const answers = answersOf(events)
  if (answers.length === 0) return null
  return (
    <section className="card answers" aria-label={t('acts.title')}>
      <ul>
        {answers.map((one) => (
          <li key={one.seq} data-answer={one.task}>
            <Status status={one.rejected ? 'REJECTED' : 'APPROVED'} /> <b>{one.task}</b>{' '}
            <span className="faint-text">
              {one.by !== null && `${t('acts.by', { by: one.by })} · `}
              <Ago at={one.at} />
            </span>
            {one.comment && <blockquote className="comment">{one.comment}</blockquote>}
          </li>
        ))}
      </ul>
    </section>
  )
}
