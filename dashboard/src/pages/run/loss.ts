// Whether a run that has begun still has a worker, and since when not: by the run itself, or by what is told of its worker.
import { type Run, TERMINAL, type Worker } from '../../api/types'
import { useWorkers } from '../workers/use-workers'

/** `interrupted`: tasks were under way when the worker was lost. Else it is queued to go on, as after an answer. */
export type Loss = { at: number; interrupted: boolean }

export function useLoss(run: Run): Loss | null {
  const workers = useWorkers(!TERMINAL.has(run.status))
  return lossOf(run, workers?.find((one) => one.worker_id === run.worker_id) ?? null)
}

export function lossOf(run: Run, worker: Worker | null): Loss | null {
  if (TERMINAL.has(run.status) || run.start_time === null) return null
  // While the run is still its own, the worker's silence is the first sign.
  if (run.worker_alive !== false)
    return worker?.state === 'DISCONNECTED' && !isParked(run)
      ? { at: worker.last_seen_at ?? run.updated_at, interrupted: true }
      : null
  const records = Object.values(run.task_records ?? {})
  return {
    at: run.updated_at,
    interrupted: records.some((one) => one.state === 'PENDING' && one.started_at !== null && one.ended_at === null),
  }
}

/** Nothing of it is at a worker while it waits for an answer. */
function isParked(run: Run): boolean {
  const states = Object.values(run.task_records ?? {})
  return states.some((one) => one.wait) && !states.some((one) => one.state === 'RUNNING' && !one.wait)
}

/** How it stands, in the words of the page. */
export function standingOf(run: Run, loss: Loss | null): string {
  if (run.status !== 'RUNNING') return run.status
  if (loss) return loss.interrupted ? 'LOST' : 'UNHELD'
  return Object.values(run.task_records ?? {}).some((record) => record.wait) ? 'WAITING' : run.status
}
