// Why a run makes no progress, in one sentence, from what the list and the workers show. Pure. The page of the run
// asks the server, which knows more.
import type { RunSummary, Worker } from '../../api/types'
import { t } from '../../text/text'

const SLEEP = 'sleep:'

/** Empty if it makes progress, has ended, or nothing is known. `workers`: null if they are not known. */
export function reasonOf(run: RunSummary, workers: Worker[] | null): string {
  if (run.status === 'PENDING' || (run.status === 'RUNNING' && run.worker_alive === false && !run.waiting_for)) {
    return queueReason(run.tag, workers)
  }
  if (run.status !== 'RUNNING' || !run.waiting_for) return ''
  const asked = run.waiting_for.filter((key) => !key.startsWith(SLEEP))
  return asked.length ? t('runs.why.answer', { keys: asked.join(', ') }) : t('runs.why.sleep')
}

function queueReason(tag: string, workers: Worker[] | null): string {
  if (workers === null) return ''
  const serving = workers.filter((one) => (one.state === 'RUNNING' || one.state === 'IDLE') && one.tags.includes(tag))
  if (serving.length === 0) return t('runs.why.noWorker', { tag })
  const taking = serving.filter((one) => !one.draining)
  if (taking.length === 0) return t('runs.why.draining', { tag })
  return taking.every((one) => one.free_slots === 0) ? t('runs.why.busy', { tag }) : ''
}
