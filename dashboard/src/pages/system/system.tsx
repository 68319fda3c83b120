// What it all stands on: the broker, streams against their limits, versions, metrics, and why it is not ready if it is not.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get } from '../../api/client'
import type { System as Stands, StreamInfo } from '../../api/types'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Shape } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { bytes, number, span } from '../../text/format'
import { t } from '../../text/text'
import { Metrics } from './metrics'

export default function System(): JSX.Element {
  const queries = useQueryClient()
  const system = useQuery({ queryKey: ['system'], queryFn: () => get<Stands>('/system') })
  const again = (
    <button
      type="button"
      onClick={() =>
        void queries.invalidateQueries({
          predicate: ({ queryKey }) => queryKey[0] === 'system' || queryKey[0] === 'metrics',
        })
      }
    >
      {t('do.refresh')}
    </button>
  )
  return (
    <Page title={t('system.title')} actions={again}>
      <Reading query={system} />
      {system.data && (
        <>
          <div className="cards">
            <Broker stands={system.data} />
            <Versions versions={system.data.versions} />
          </div>
          <Streams streams={system.data.streams} />
        </>
      )}
      <Metrics />
    </Page>
  )
}

function Broker({ stands }: { stands: Stands }): JSX.Element {
  const durability = stands.broker.durability
  return (
    <section className="card">
      <h2>{t('system.broker')}</h2>
      <dl className="facts">
        <dt>{t('workers.state')}</dt>
        <dd>
          <span className={`status tone-${stands.ready ? 'good' : 'bad'}`}>
            <Shape status={stands.ready ? 'COMPLETED' : 'FAILED'} />{' '}
            {stands.ready ? t('system.ready') : t('system.notReady')}
          </span>
          {stands.reasons.map((reason) => (
            <div key={reason}>{reason}</div>
          ))}
        </dd>
        <dt>URL</dt>
        <dd className="mono">
          {stands.broker.url} ({stands.broker.embedded ? t('system.embedded') : t('system.external')})
        </dd>
        {durability && (
          <>
            <dt>{t('system.durability')}</dt>
            <dd>
              <b>{durability}</b> – {t(`system.durability.${durability === 'always' ? 'always' : 'interval'}`)}
            </dd>
          </>
        )}
        <dt>{t('system.replicas')}</dt>
        <dd>{stands.replicas}</dd>
        <dt>{t('system.reconnects')}</dt>
        <dd>{number(stands.reconnects)}</dd>
        <dt>{t('system.lag')}</dt>
        <dd>{number(stands.read_model.lag)}</dd>
        <dt>{t('system.housekeeper')}</dt>
        <dd>{stands.housekeeper ? t('system.housekeeper.here') : t('system.housekeeper.there')}</dd>
      </dl>
    </section>
  )
}

function Versions({ versions }: { versions: Record<string, string> }): JSX.Element {
  return (
    <section className="card">
      <h2>{t('system.versions')}</h2>
      <dl className="facts">
        {Object.entries(versions).map(([name, version]) => (
          <div key={name} className="fact">
            <dt>{name}</dt>
            <dd className="mono">{version}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}

function Streams({ streams }: { streams: StreamInfo[] }): JSX.Element {
  return (
    <section>
      <h2 className="section-title">{t('system.streams')}</h2>
      <TableBox label={t('system.streams')}>
        <thead>
          <tr>
            <th scope="col">{t('system.stream')}</th>
            <th scope="col" className="number">
              {t('system.messages')}
            </th>
            <th scope="col" className="number">
              {t('system.bytes')}
            </th>
            <th scope="col">{t('system.limit')}</th>
            <th scope="col">{t('system.age')}</th>
          </tr>
        </thead>
        <tbody>
          {streams.map((one) => (
            <tr key={one.name}>
              <td className="mono">{one.name}</td>
              <td className="number">{number(one.messages)}</td>
              <td className="number">{bytes(one.bytes)}</td>
              <td className="nowrap">
                <Limit stream={one} />
              </td>
              <td className="nowrap">{one.age_max_sec ? span(one.age_max_sec) : '–'}</td>
            </tr>
          ))}
        </tbody>
      </TableBox>
    </section>
  )
}

const NEARLY_FULL = 0.85

function Limit({ stream }: { stream: StreamInfo }): JSX.Element {
  if (stream.bytes_max === null) return <span className="faint-text">{t('system.unlimited')}</span>
  const share = stream.bytes / stream.bytes_max
  const words = t('system.full', { percent: (share * 100).toFixed(share < 0.1 ? 1 : 0) })
  return (
    <span title={words}>
      <span className={`meter${share > NEARLY_FULL ? ' bad' : ''}`} aria-hidden="true">
        <span style={{ width: `${Math.min(100, share * 100)}%` }} />
      </span>
      {bytes(stream.bytes_max)} <span className="faint-text">· {words}</span>
    </span>
  )
}
