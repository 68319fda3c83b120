// Who works here, how they are, and what they are at. The difference between stopped and lost is plain.
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Worker } from '../../api/types'
import { useCell } from '../../live/cell'
import { useDoing } from '../../live/doing'
import { useNow } from '../../live/now'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { Shape } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { say } from '../../parts/toast'
import { sentence, Wrong } from '../../parts/wrong'
import { ago, short, span } from '../../text/format'
import { type Key, t } from '../../text/text'
import { Drain, DrainMark } from './drain'
import { ask, refused, useWorkers } from './use-workers'

const LOOKS: Record<Worker['state'], [shape: string, tone: string]> = {
  RUNNING: ['RUNNING', 'busy'],
  IDLE: ['COMPLETED', 'good'],
  STOPPED_GRACEFUL: ['CANCELLED', 'quiet'],
  DISCONNECTED: ['FAILED', 'bad'],
}
const ORDER: Worker['state'][] = ['DISCONNECTED', 'RUNNING', 'IDLE', 'STOPPED_GRACEFUL']

export default function Workers(): JSX.Element {
  const workers = useWorkers()
  const why = useCell(refused)
  const [hidden, setHidden] = useState(false)
  const [gone, setGone] = useState(true)
  const shown = (workers ?? [])
    .filter((one) => (hidden || !one.hidden) && (gone || one.state === 'RUNNING' || one.state === 'IDLE'))
    .sort((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.worker_id.localeCompare(b.worker_id))
  const actions = (
    <>
      <label className="check">
        <input type="checkbox" checked={gone} onChange={() => setGone(!gone)} /> {t('workers.withGone')}
      </label>
      <label className="check">
        <input type="checkbox" checked={hidden} onChange={() => setHidden(!hidden)} /> {t('workers.withHidden')}
      </label>
    </>
  )
  return (
    <Page title={t('workers.title')} actions={actions}>
      {why && <Wrong error={why} again={ask} />}
      {workers === null && !why && <p className="loading">{t('loading')}</p>}
      {workers !== null && shown.length === 0 && (
        <Empty
          title={t('workers.none.title')}
          text={t('workers.none.text')}
          command="pyoco-worker --flow-resolver my_flows.py:resolve --tags default"
        />
      )}
      {shown.length > 0 && <List workers={shown} />}
      {shown.length > 0 && <p className="faint-text">{t('workers.drain.text')}</p>}
    </Page>
  )
}

function List({ workers }: { workers: Worker[] }): JSX.Element {
  const heads: Key[] = [
    'workers.worker',
    'workers.state',
    'workers.tags',
    'workers.slots',
    'workers.now',
    'workers.heartbeat',
    'workers.fetch',
    'workers.wheels',
  ]
  return (
    <TableBox label={t('workers.title')}>
      <thead>
        <tr>
          {heads.map((key) => (
            <th key={key} scope="col">
              {t(key)}
            </th>
          ))}
          <th scope="col">
            <span className="unseen">{t('workers.actions')}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {workers.map((one) => (
          <Row key={one.worker_id} worker={one} />
        ))}
      </tbody>
    </TableBox>
  )
}

function Row({ worker }: { worker: Worker }): JSX.Element {
  const doing = useDoing()
  const running = worker.current_run_ids ?? []
  const isUp = worker.state === 'RUNNING' || worker.state === 'IDLE'
  return (
    <tr data-worker={worker.worker_id}>
      <td>
        <b>{worker.worker_id}</b> {worker.hidden && <span className="tag">{t('workers.hidden')}</span>}
        <small>{[worker.host, worker.pid, worker.versions?.pyoco_server].filter(Boolean).join(' · ')}</small>
      </td>
      <td>
        <State worker={worker} />
        <DrainMark worker={worker} />
      </td>
      <td>
        {worker.tags.map((tag) => (
          <span key={tag} className="tag">
            {tag}
          </span>
        ))}
      </td>
      <td className="nowrap">
        {isUp && worker.slots ? <Slots used={worker.slots - (worker.free_slots ?? 0)} all={worker.slots} /> : '–'}
      </td>
      <td>
        {isUp && running.length
          ? running.map((id) => (
              <a key={id} className="mono" href={`#/runs/${part(id)}`}>
                {short(id)}{' '}
              </a>
            ))
          : '–'}
      </td>
      <td className="nowrap">
        <Ago at={worker.last_seen_at} />
      </td>
      <td className="nowrap">
        <Ago at={worker.last_fetch_at} />
      </td>
      <td>
        <Wheels worker={worker} />
      </td>
      <td className="row-actions">
        {isUp && <Drain worker={worker} />}
        <button
          type="button"
          className="small"
          disabled={doing.busy}
          onClick={() => doing.run(() => hide(worker))}
          aria-label={`${worker.hidden ? t('workers.show') : t('workers.hide')}: ${worker.worker_id}`}
        >
          {worker.hidden ? t('workers.show') : t('workers.hide')}
        </button>
      </td>
    </tr>
  )
}

function State({ worker }: { worker: Worker }): JSX.Element {
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

function Slots({ used, all }: { used: number; all: number }): JSX.Element {
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

function Wheels({ worker }: { worker: Worker }): JSX.Element {
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

async function hide(worker: Worker): Promise<void> {
  try {
    await send('PATCH', `/workers/${part(worker.worker_id)}`, { hidden: !worker.hidden })
  } catch (error) {
    say(sentence(error), true)
  }
}
