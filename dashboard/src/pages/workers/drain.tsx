// Whether a worker takes new runs: the mark of one that does not, and the button that asks for it or takes it back.
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Worker } from '../../api/types'
import { useDoing } from '../../live/doing'
import { Confirm } from '../../parts/confirm'
import { Shape } from '../../parts/status'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { t } from '../../text/text'
import { useWorkers } from './use-workers'

/** Of another tenant's runs only the slots are known that they hold. */
export function runsLeft(worker: Worker): number {
  if (worker.state !== 'RUNNING') return 0
  const slots = (worker.slots ?? 0) - (worker.free_slots ?? 0)
  return Math.max(1, worker.current_run_ids?.length ?? 0, slots)
}

export function DrainMark({ worker }: { worker: Worker }): JSX.Element | null {
  if (!worker.draining) {
    return worker.drain_requested ? <small className="drain-mark">{t('workers.drain.asked')}</small> : null
  }
  const left = runsLeft(worker)
  const [shape, tone] = left ? ['CANCELLING', 'wait'] : ['WAITING', 'quiet']
  return (
    <span className={`status drain-mark tone-${tone}`} data-drain={left ? 'draining' : 'drained'}>
      <Shape status={shape} />{' '}
      {left === 0 ? t('workers.drained') : left === 1 ? t('workers.draining.one') : t('workers.draining', { n: left })}
    </span>
  )
}

export function Drain({ worker }: { worker: Worker }): JSX.Element {
  const [asking, setAsking] = useState(false)
  const doing = useDoing()
  const drains = worker.draining || worker.drain_requested
  const alone = onlyServedBy(worker, useWorkers() ?? [])
  const words = drains ? t('workers.resume') : t('workers.drain')
  const resume = () =>
    doing.run(() => setDraining(worker.worker_id, false).catch((error: unknown) => say(sentence(error), true)))
  return (
    <>
      <button
        type="button"
        className="small"
        disabled={doing.busy}
        onClick={drains ? resume : () => setAsking(true)}
        aria-label={`${words}: ${worker.worker_id}`}
      >
        {words}
      </button>
      {asking && (
        <Confirm
          title={t('workers.drain.title', { worker: worker.worker_id })}
          safe={t('do.close')}
          go={t('workers.drain')}
          act={() => setDraining(worker.worker_id, true)}
          onClose={() => setAsking(false)}
        >
          <p>{t('workers.drain.text')}</p>
          {alone.length > 0 && <p className="hint warning">{t('workers.drain.alone', { tags: alone.join(', ') })}</p>}
        </Confirm>
      )}
    </>
  )
}

/** The tags that no other worker would take runs of. */
function onlyServedBy(worker: Worker, workers: Worker[]): string[] {
  const others = workers.filter(
    (one) => one.worker_id !== worker.worker_id && (one.state === 'RUNNING' || one.state === 'IDLE') && !one.draining,
  )
  return worker.tags.filter((tag) => !others.some((one) => one.tags.includes(tag)))
}

async function setDraining(id: string, draining: boolean): Promise<void> {
  await send('PATCH', `/workers/${part(id)}`, { draining })
  say(t(draining ? 'workers.drain.done' : 'workers.resume.done', { worker: id }))
}
