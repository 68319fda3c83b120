// Who works here, how they are, and what they are at. The difference between stopped and lost is plain.
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Worker } from '../../api/types'
import { useCell } from '../../live/cell'
import { useDoing } from '../../live/doing'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { say } from '../../parts/toast'
import { sentence, Wrong } from '../../parts/wrong'
import { short } from '../../text/format'
import { type Key, t } from '../../text/text'
import { Drain, DrainMark } from './drain'
import { Queues } from './queues'
import { Tags } from './tags'
import { ask, refused, useWorkers } from './use-workers'
import { isUp, Load, Slots, State, Wheels } from './worker-parts'

const ORDER: Worker['state'][] = ['DISCONNECTED', 'RUNNING', 'IDLE', 'STOPPED_GRACEFUL']

export default function Workers(): JSX.Element {
  const workers = useWorkers()
  const why = useCell(refused)
  const [hidden, setHidden] = useState(false)
  const [gone, setGone] = useState(true)
  const shown = (workers ?? [])
    .filter((one) => (hidden || !one.hidden) && (gone || isUp(one)))
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
      {workers !== null && <Queues shape={shapeOf(workers)} />}
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
  const up = isUp(worker)
  return (
    <tr data-worker={worker.worker_id}>
      <td>
        <a href={`#/workers/${part(worker.worker_id)}`}>
          <b>{worker.worker_id}</b>
        </a>{' '}
        {worker.hidden && <span className="tag">{t('workers.hidden')}</span>}
        <small>{[worker.host, worker.pid, worker.versions?.pyoco_server].filter(Boolean).join(' · ')}</small>
      </td>
      <td>
        <State worker={worker} />
        <DrainMark worker={worker} />
      </td>
      <td>
        <Tags tags={worker.tags} />
      </td>
      <td className="nowrap">
        {up && worker.slots ? <Slots used={worker.slots - (worker.free_slots ?? 0)} all={worker.slots} /> : '–'}
        {up && worker.usage && <Load usage={worker.usage} />}
      </td>
      <td>
        {up && running.length
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
        {up && <Drain worker={worker} />}
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

/** What of the workers the queues depend on. */
function shapeOf(workers: Worker[]): string {
  return workers
    .filter(isUp)
    .map((one) => `${one.worker_id} ${one.free_slots} ${one.draining}`)
    .sort()
    .join('\n')
}

async function hide(worker: Worker): Promise<void> {
  try {
    await send('PATCH', `/workers/${part(worker.worker_id)}`, { hidden: !worker.hidden })
  } catch (error) {
    say(sentence(error), true)
  }
}
