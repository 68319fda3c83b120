// A cancel from its acceptance to its end: how long it still has, and afterwards what was ignored.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get } from '../../api/client'
import type { ExecutionEvent } from '../../api/executions'
import { type Caller, type Run, TERMINAL } from '../../api/types'
import { now, useNow } from '../../live/now'
import { clock, span } from '../../text/format'
import { t } from '../../text/text'
import { useWhy } from './why'

export function CancelStory({ run, events }: { run: Run; events: ExecutionEvent[] }): JSX.Element | null {
  const caller = useQuery({
    queryKey: ['caller'],
    queryFn: () => get<Caller>('/caller'),
    staleTime: Number.POSITIVE_INFINITY,
  })
  if (run.cancel_requested_at === null) return null
  const grace = caller.data?.cancel_grace_sec ?? 0
  const at = clock(run.cancel_requested_at)
  const by = run.cancel_requested_by
  return (
    <div className={`cancel-story${TERMINAL.has(run.status) ? '' : ' live-cancel'}`} role="status">
      <p>{by ? t('cancel.acceptedBy', { at, by }) : t('cancel.accepted', { at })}</p>
      {run.cancel_reason && <blockquote className="comment">{run.cancel_reason}</blockquote>}
      {TERMINAL.has(run.status) ? (
        <After run={run} events={events} grace={grace} />
      ) : (
        <Countdown from={run.cancel_requested_at} grace={grace} />
      )}
    </div>
  )
}

function Countdown({ from, grace }: { from: number; grace: number }): JSX.Element {
  useNow()
  const left = Math.ceil(from + grace - now())
  if (left <= 0)
    return (
      <p>
        <b>{t('cancel.due')}</b>
      </p>
    )
  return (
    <p>
      <b>{t('cancel.countdown', { sec: left })}</b>
      <progress max={grace} value={grace - left} aria-label={t('cancel.countdown', { sec: left })} />
    </p>
  )
}

function After({ run, events, grace }: { run: Run; events: ExecutionEvent[]; grace: number }): JSX.Element {
  const why = useWhy(run)
  const took = Math.max(0, (run.end_time ?? run.updated_at) - (run.cancel_requested_at ?? 0))
  const running = events
    .filter((event) => event.type === 'NODE_INTERRUPT_REQUESTED')
    .map((event) => event.payload.nodeId ?? '')
  const refused = why?.refused ?? []
  if (run.start_time === null) return <p>{t('cancel.unstarted')}</p>
  const hard = grace > 0 && took >= grace
  return (
    <>
      <p>
        {hard ? t('cancel.hard', { grace: span(grace), took: span(took) }) : t('cancel.soft', { took: span(took) })}
      </p>
      {hard && running.length > 0 && <p>{t('cancel.ignored', { tasks: running.join(', ') })}</p>}
      {refused.length > 0 && (
        <p>
          {t('cancel.refused', {
            what: refused.map((one) => [one.command, one.nodeId].filter(Boolean).join(' ')).join(', '),
          })}
        </p>
      )}
    </>
  )
}
