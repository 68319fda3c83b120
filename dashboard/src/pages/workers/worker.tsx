// One worker: its state, process, slots, current runs, flows, versions and wheels; and its drain.
import type { JSX, ReactNode } from 'react'
import { part } from '../../api/client'
import type { Usage, Worker } from '../../api/types'
import { useCell } from '../../live/cell'
import { Page } from '../../parts/page'
import { Status } from '../../parts/status'
import { Ago } from '../../parts/time'
import { Wrong } from '../../parts/wrong'
import { bytes, short } from '../../text/format'
import { t } from '../../text/text'
import { Drain, DrainMark } from './drain'
import { Tags } from './tags'
import { ask, refused, useWorkers } from './use-workers'
import { cores, isUp, Slots, State, Wheels } from './worker-parts'

export default function OneWorker({ id }: { id: string }): JSX.Element {
  const workers = useWorkers()
  const why = useCell(refused)
  const worker = workers?.find((one) => one.worker_id === id)
  const actions = (
    <>
      <a className="button" href="#/workers">
        {t('workers.all')}
      </a>
      {worker && isUp(worker) && <Drain worker={worker} />}
    </>
  )
  return (
    <Page title={t('workers.one', { worker: id })} actions={actions}>
      {why && <Wrong error={why} again={ask} />}
      {workers === null && !why && <p className="loading">{t('loading')}</p>}
      {workers !== null && !worker && <p className="empty">{t('workers.none.one', { worker: id })}</p>}
      {worker && <About worker={worker} />}
    </Page>
  )
}

function About({ worker }: { worker: Worker }): JSX.Element {
  return (
    <div className="worker" data-worker={worker.worker_id}>
      <Card title={t('workers.state')}>
        <p>
          <State worker={worker} />
          <DrainMark worker={worker} />
        </p>
        <dl className="facts">
          <dt>{t('workers.slots')}</dt>
          <dd>
            {isUp(worker) && worker.slots ? (
              <Slots used={worker.slots - (worker.free_slots ?? 0)} all={worker.slots} />
            ) : (
              '–'
            )}
          </dd>
          <dt>{t('workers.tags')}</dt>
          <dd>
            <Tags tags={worker.tags} />
          </dd>
          <dt>{t('workers.heartbeat')}</dt>
          <dd>
            <Ago at={worker.last_seen_at} />
          </dd>
          <dt>{t('workers.fetch')}</dt>
          <dd>
            <Ago at={worker.last_fetch_at} />
          </dd>
        </dl>
      </Card>
      <Runs worker={worker} />
      {isUp(worker) && <Load usage={worker.usage ?? null} />}
      <Card title={t('workers.process')}>
        <dl className="facts">
          <dt>{t('workers.host')}</dt>
          <dd>{worker.host ?? '–'}</dd>
          <dt>{t('workers.pid')}</dt>
          <dd>{worker.pid ?? '–'}</dd>
          <dt>{t('workers.started')}</dt>
          <dd>
            <Ago at={worker.started_at} />
          </dd>
          {Object.entries(worker.versions ?? {}).map(([name, version]) => (
            <div className="fact" key={name}>
              <dt>{name}</dt>
              <dd className="mono">{version ?? '–'}</dd>
            </div>
          ))}
        </dl>
      </Card>
      <Card title={t('workers.wheels')}>
        <Wheels worker={worker} />
        {worker.wheel_sync?.enabled && worker.wheel_sync.installed_wheels.length === 0 && (
          <p className="faint-text">{t('workers.noWheels')}</p>
        )}
      </Card>
      <Flows flows={worker.flows ?? {}} />
    </div>
  )
}

function Runs({ worker }: { worker: Worker }): JSX.Element {
  const running = isUp(worker) ? (worker.current_run_ids ?? []) : []
  return (
    <Card title={t('workers.runs')}>
      {running.length === 0 && <p className="faint-text">{t('workers.noRuns')}</p>}
      <ul className="bare">
        {running.map((id) => (
          <li key={id}>
            <a className="mono" href={`#/runs/${part(id)}`}>
              {id}
            </a>
          </li>
        ))}
      </ul>
      <dl className="facts">
        <dt>{t('workers.lastRun')}</dt>
        <dd>
          {worker.last_run_id ? (
            <>
              <a className="mono" href={`#/runs/${part(worker.last_run_id)}`}>
                {short(worker.last_run_id)}
              </a>{' '}
              {worker.last_run_status && <Status status={worker.last_run_status} />}
            </>
          ) : (
            '–'
          )}
        </dd>
      </dl>
    </Card>
  )
}

function Load({ usage }: { usage: Usage | null }): JSX.Element {
  if (usage === null)
    return (
      <Card title={t('workers.usage')}>
        <p className="faint-text">{t('workers.usage.unknown')}</p>
      </Card>
    )
  return (
    <Card title={t('workers.usage')}>
      <dl className="facts">
        <dt>{t('workers.usage.cpu')}</dt>
        <dd data-part="cpu">{cpuText(usage.cpu, usage.cpu_cores)}</dd>
        <dt>{t('workers.usage.memory')}</dt>
        <dd data-part="memory">{bytes(usage.memory_bytes)}</dd>
        {usage.slots.map((slot) => (
          <div className="fact" key={slot.pid} data-slot={slot.pid}>
            <dt>{t('workers.usage.slot', { pid: slot.pid })}</dt>
            <dd>
              {cpuText(slot.cpu, null)} · {bytes(slot.memory_bytes)}
            </dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}

function cpuText(cpu: number | null, all: number | null): string {
  if (cpu === null) return '–'
  return all ? t('workers.usage.ofCores', { n: cores(cpu), all }) : t('workers.usage.cores', { n: cores(cpu) })
}

function Flows({ flows }: { flows: Record<string, string> }): JSX.Element {
  const names = Object.entries(flows)
  return (
    <Card title={t('workers.flows')}>
      {names.length === 0 && <p className="faint-text">{t('workers.noFlows')}</p>}
      <dl className="facts">
        {names.map(([name, description]) => (
          <div className="fact" key={name}>
            <dt>
              <a href={`#/runs?flow=${encodeURIComponent(name)}`}>{name}</a>
            </dt>
            <dd>{description}</dd>
          </div>
        ))}
      </dl>
    </Card>
  )
}

function Card({ title, children }: { title: string; children: ReactNode }): JSX.Element {
  return (
    <section className="card stack">
      <h2>{title}</h2>
      {children}
    </section>
  )
}
