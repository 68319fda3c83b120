// How a worker stands, in the list and on its own page: state, slots and wheels.
import type { JSX } from 'react'
import type { Usage, Worker } from '../../api/types'
import { useNow } from '../../live/now'
import { Shape } from '../../parts/status'
import { ago, bytes, span } from '../../text/format'
import { t } from '../../text/text'

const LOOKS: Record<Worker['state'], [shape: string, tone: string]> = {
  RUNNING: ['RUNNING', 'busy'],
  IDLE: ['COMPLETED', 'good'],
  STOPPED_GRACEFUL: ['CANCELLED', 'quiet'],
  DISCONNECTED: ['FAILED', 'bad'],
}

export function isUp(worker: Worker): boolean {
  return worker.state === 'RUNNING' || worker.state === 'IDLE'
}

export function State({ worker }: { worker: Worker }): JSX.Element {
  const now = useNow()
  const [shape, tone] = LOOKS[worker.state]
  return (
    <>
      <span className={`status tone-${tone}`}>
        <Shape status={shape} /> {t(`workers.${worker.state}`)}
      </span>
      {worker.state === 'DISCONNECTED' && worker.last_seen_at !== null && (
        <small>{t('workers.DISCONNECTED.text', { sec: span(Math.max(0, now - worker.last_seen_at)) })}</small>
      )}
      {worker.state === 'STOPPED_GRACEFUL' && worker.stopped_at !== null && (
        <small>
          {t('workers.STOPPED_GRACEFUL.text', { at: ago(worker.stopped_at, now), why: worker.stop_reason ?? '–' })}
        </small>
      )}
    </>
  )
}

export function Slots({ used, all }: { used: number; all: number }): JSX.Element {
  const words = t('workers.slotsUsed', { used, all })
  return (
    <span title={words}>
      <span className="meter" aria-hidden="true">
        <span style={{ width: `${(used / all) * 100}%` }} />
      </span>
      {used}/{all}
    </span>
  )
}

/** Of the worker and its slots together, in one line. */
export function Load({ usage }: { usage: Usage }): JSX.Element {
  return (
    <small className="load" title={t('workers.usage')}>
      {usage.cpu !== null && `${t('workers.usage.cores', { n: cores(usage.cpu) })} · `}
      {bytes(usage.memory_bytes)}
    </small>
  )
}

export function cores(cpu: number): string {
  return cpu.toFixed(cpu < 10 ? 2 : 0)
}

export function Wheels({ worker }: { worker: Worker }): JSX.Element {
  const sync = worker.wheel_sync
  const result = sync?.last_result ?? 'disabled'
  const wheels = sync?.installed_wheels ?? []
  const words = t(`workers.wheels.${result}`, { n: wheels.length })
  return (
    <span
      title={wheels.map((one) => one.wheel_name).join('\n')}
      className={result === 'error' ? 'status tone-bad' : undefined}
    >
      {result === 'error' && <Shape status="FAILED" />}
      {words}
      {result === 'error' && <small>{sync?.last_error}</small>}
      {result === 'ok' &&
        wheels.map((one) => (
          <small key={one.wheel_name}>
            {one.package_name} {one.package_version}
          </small>
        ))}
    </span>
  )
}
