// Wheels: what is there, on how many workers it is in use, and what happened to them.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { ask, get, part } from '../../api/client'
import type { Wheel, WheelEntry, Worker } from '../../api/types'
import { reread, useReread } from '../../live/reread'
import { Confirm } from '../../parts/confirm'
import { Command, clientCommand } from '../../parts/copy'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { bytes, instant } from '../../text/format'
import { t, word } from '../../text/text'
import { useWorkers } from '../workers/use-workers'
import { Upload } from './upload'

const COMMAND = 'wheel upload dist/my_tasks-1.0-py3-none-any.whl --tags default'

export default function Wheels(): JSX.Element {
  const queries = useQueryClient()
  const wheels = useQuery({ queryKey: ['wheels'], queryFn: () => get<Wheel[]>('/wheels') })
  const history = useQuery({
    queryKey: ['wheels', 'history'],
    queryFn: () => get<WheelEntry[]>('/wheels/history', { limit: 50 }),
  })
  useReread('wheels', ['wheels'])
  const workers = useWorkers() ?? []
  const [uploading, setUploading] = useState(false)
  const [deleting, setDeleting] = useState<string | null>(null)
  const readAgain = () => reread(queries, ['wheels'])
  const remove = async (name: string) => {
    await ask(`/wheels/${part(name)}`, { method: 'DELETE' })
    await readAgain()
  }
  return (
    <Page
      title={t('wheels.title')}
      actions={
        <button type="button" className="main" onClick={() => setUploading(true)}>
          {t('wheels.upload')}
        </button>
      }
    >
      <Reading query={wheels} />
      {wheels.data?.length === 0 && (
        <Empty title={t('wheels.none.title')} text={t('wheels.none.text')} command={clientCommand(COMMAND)} />
      )}
      {wheels.data && wheels.data.length > 0 && isSyncedByNone(workers) && (
        <div className="hint warning" data-warning="sync">
          <p>{t('wheels.noSync')}</p>
          <Command text="PYOCO_WHEEL_SYNC_ENABLED=1 pyoco-worker --flow-resolver my_flows.py:resolve --tags default" />
        </div>
      )}
      {wheels.data && wheels.data.length > 0 && <List wheels={wheels.data} workers={workers} remove={setDeleting} />}
      <Reading query={history} quiet />
      {history.data && history.data.length > 0 && <History entries={history.data} />}
      {uploading && <Upload onClose={() => setUploading(false)} onDone={() => void readAgain()} />}
      {deleting && (
        <Confirm
          title={t('wheels.deleteTitle', { name: deleting })}
          safe={t('do.close')}
          go={t('wheels.delete')}
          act={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>{t('wheels.deleteText')}</p>
        </Confirm>
      )}
    </Page>
  )
}

function List({
  wheels,
  workers,
  remove,
}: {
  wheels: Wheel[]
  workers: Worker[]
  remove: (name: string) => void
}): JSX.Element {
  return (
    <TableBox label={t('wheels.title')}>
      <thead>
        <tr>
          <th scope="col">{t('wheels.name')}</th>
          <th scope="col">{t('workers.tags')}</th>
          <th scope="col">{t('wheels.inUse')}</th>
          <th scope="col" className="number">
            {t('wheels.size')}
          </th>
          <th scope="col">{t('wheels.when')}</th>
          <th scope="col">
            <span className="unseen">{t('wheels.delete')}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {wheels.map((wheel) => (
          <tr key={wheel.name} data-wheel={wheel.name}>
            <td>
              <b>{wheel.package}</b> {wheel.version}
              <small className="mono">{wheel.name}</small>
            </td>
            <td className="nowrap">
              {wheel.tags.length ? (
                wheel.tags.map((tag) => (
                  <span key={tag} className="tag">
                    {tag}
                  </span>
                ))
              ) : (
                <span className="faint-text">{t('runs.all')}</span>
              )}
            </td>
            <td className="nowrap">
              <InUse wheel={wheel} workers={workers} />
            </td>
            <td className="number">{bytes(wheel.size_bytes)}</td>
            <td className="nowrap">
              <Ago at={instant(wheel.modified)} />
            </td>
            <td className="right row-actions">
              <button
                type="button"
                className="small danger"
                aria-label={`${t('wheels.delete')}: ${wheel.name}`}
                onClick={() => remove(wheel.name)}
              >
                {t('wheels.delete')}
              </button>
            </td>
          </tr>
        ))}
      </tbody>
    </TableBox>
  )
}

/** There are live workers, and none of them takes wheels. */
function isSyncedByNone(workers: Worker[]): boolean {
  const live = workers.filter((one) => one.state === 'RUNNING' || one.state === 'IDLE')
  return live.length > 0 && !live.some((one) => one.wheel_sync?.enabled)
}

/** Of the living workers that synchronise wheels and have one of its tags. */
function InUse({ wheel, workers }: { wheel: Wheel; workers: Worker[] }): JSX.Element {
  const meant = workers.filter(
    (one) =>
      (one.state === 'RUNNING' || one.state === 'IDLE') &&
      one.wheel_sync?.enabled &&
      (wheel.tags.length === 0 || one.tags.some((tag) => wheel.tags.includes(tag))),
  )
  const using = meant.filter((one) =>
    one.wheel_sync?.installed_wheels.some((installed) => installed.wheel_name === wheel.name),
  )
  const words = t('wheels.inUseOn', { n: using.length, all: meant.length })
  return (
    <>
      {meant.length > 0 && (
        <span className="meter" aria-hidden="true">
          <span style={{ width: `${(using.length / meant.length) * 100}%` }} />
        </span>
      )}
      {words}
    </>
  )
}

function History({ entries }: { entries: WheelEntry[] }): JSX.Element {
  return (
    <section>
      <h2 className="section-title">{t('wheels.history')}</h2>
      <TableBox label={t('wheels.history')}>
        <tbody>
          {entries.map((one) => (
            <tr key={one.event_id}>
              <td className="nowrap">
                <Ago at={one.occurred_at} />
              </td>
              <td>{word(`wheels.action.${one.action}`, one.action)}</td>
              <td className="mono">{one.wheel_name}</td>
              <td>
                {one.tags.map((tag) => (
                  <span key={tag} className="tag">
                    {tag}
                  </span>
                ))}
              </td>
              <td className="faint-text">{one.actor.api_key_id ?? one.source.remote_addr ?? ''}</td>
            </tr>
          ))}
        </tbody>
      </TableBox>
    </section>
  )
}
