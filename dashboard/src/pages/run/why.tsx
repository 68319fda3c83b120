// Why a run does not move, or how its end was decided, in the server's own sentence.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useCallback, useEffect, useRef } from 'react'
import { get, part } from '../../api/client'
import type { Why } from '../../api/executions'
import { type Run, TERMINAL, type Worker } from '../../api/types'
import { useCell } from '../../live/cell'
import { now } from '../../live/now'
import { reread, useOnRuns } from '../../live/reread'
import { clock, exact } from '../../text/format'
import { language } from '../../text/text'
import { known, useWorkers } from '../workers/use-workers'

const LOOK_AGAIN_MS = 1000
const SAID_MAX = 3
/** Of a moment: a worker that was silent is heard again, and nothing else tells that it is. */
const OF_WORKERS = new Set(['NO_WORKER', 'DRAINING', 'WORKER_LOST'])

export function useWhy(run: Run): Why | null {
  const why = useQuery({
    queryKey: ['why', run.run_id, run.status, run.updated_at, language()],
    queryFn: () => get<Why>(`/executions/${part(run.run_id)}/why`),
    placeholderData: (before) => before,
  })
  const queries = useQueryClient()
  const isQueued = run.status === 'PENDING' || run.worker_alive === false
  const isOpen = !TERMINAL.has(run.status)
  const isOfWorkers = why.data?.reasons.some((one) => OF_WORKERS.has(one.reason)) ?? false
  const askAgain = useCallback(() => void reread(queries, ['why', run.run_id]), [queries, run.run_id])
  useWhileItLasts(isOpen, isQueued, askAgain)
  useHeartbeats(isOpen && isOfWorkers, askAgain)
  return why.data ?? null
}

/** While it is wanted: whenever workers are told, also if only a heartbeat is new. */
function useHeartbeats(wanted: boolean, act: () => void): void {
  const told = useCell(known)
  useEffect(() => {
    if (wanted && told) act()
  }, [wanted, told, act])
}

/** Who has it or could take it changes without the run, and so does how many are ahead: asked again when workers do, and while it is queued when other runs do. */
function useWhileItLasts(lasts: boolean, isQueued: boolean, act: () => void): void {
  useOnRuns(
    useCallback(() => isQueued, [isQueued]),
    LOOK_AGAIN_MS,
    act,
  )
  const workers = useWorkers(lasts)
  const states = workers?.map(stateOf).join('\n')
  // Undefined at first: what the sentence was made from may be older than the first that we are told of workers.
  const seen = useRef<string | undefined>(undefined)
  useEffect(() => {
    if (lasts && states !== undefined && seen.current !== states) act()
    seen.current = states
  }, [lasts, states, act])
}

/** Also which process it is and when an operator changed it: what came and went between two messages is known by these. */
const stateOf = (one: Worker) =>
  [one.worker_id, one.instance_id, one.state, one.draining, one.updated_at, one.tags].join(' ')

export function WhyLine({ run }: { run: Run }): JSX.Element | null {
  const why = useWhy(run)
  // A cancel tells its own story, and of a run that somebody is at there is nothing to explain.
  const moves = why?.reasons.length === 1 && why.reasons[0]?.reason === 'AT_WORKER'
  if (TERMINAL.has(run.status) || run.cancel_requested_at !== null || !why?.summary || moves) return null
  const said =
    why.reasons.length > 1
      ? why.reasons
          .slice(0, SAID_MAX)
          .map((one) => one.message)
          .join(' ')
      : why.summary
  return (
    <p className="why" role="status">
      {withLocalTimes(said)}
    </p>
  )
}

const TODAY_SEC = 12 * 3600
const INSTANT = /\d{4}-\d\d-\d\dT[\d:.]+Z/g

/** The server says instants as programs do; here they are the reader's own. */
export function withLocalTimes(sentence: string): string {
  return sentence.replace(INSTANT, (instant) => {
    const at = Date.parse(instant) / 1000
    return Math.abs(at - now()) < TODAY_SEC ? clock(at) : exact(at)
  })
}
