// One flow: what it consists of, what it takes, how its runs went, what starts it and who executes it.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, type ReactNode, useCallback, useMemo, useState } from 'react'
import { get, part } from '../../api/client'
import type { KnownFlow, Param, Run, RunGraph, RunSummary, Schedule } from '../../api/types'
import { go, rewrite, usePlace } from '../../live/place'
import { reread, useOnRuns, useReread } from '../../live/reread'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { Ago, Span } from '../../parts/time'
import { short } from '../../text/format'
import { t } from '../../text/text'
import { Graph } from '../run/graph'
import { stateOf } from '../run/story'
import { standing } from '../runs/filters'
import { WhenText } from '../schedules/when-text'
import { useWorkers } from '../workers/use-workers'
import type { Schema } from './form/schema'
import { Submit } from './submit'
import { TrendCard } from './trend'

const RUNS_MAX = 60
const LISTED_MAX = 10
const REREAD_MS = 1500
const NONE: ReadonlySet<string> = new Set()

export default function Flow({ name }: { name: string }): JSX.Element {
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  const runs = useQuery({
    queryKey: ['runs of', name],
    queryFn: () => get<RunSummary[]>('/runs', { flow: name, limit: RUNS_MAX }),
  })
  useRereadWithRuns(name)
  const { query } = usePlace()
  const found = flows.data?.find((one) => one.flow_name === name) ?? null
  // The form keeps its flow, though the last worker that reports it may go.
  const [opened, setOpened] = useState<KnownFlow | null>(null)
  const isStarting = query.has('start')
  if (isStarting && found && opened === null) setOpened(found)
  if (!isStarting && opened !== null) setOpened(null)
  const isUnknown = flows.isSuccess && runs.isSuccess && found === null && runs.data.length === 0
  if (isUnknown)
    return (
      <Page title={name}>
        <Empty title={t('flow.none.title', { flow: name })} text={t('flow.none.text')}>
          <a className="button" href="#/flows">
            {t('flow.all')}
          </a>
        </Empty>
      </Page>
    )
  return (
    <Page title={name} className="flow-page" actions={found && <FlowActions flow={found} />}>
      {found?.description && <p className="faint-text">{found.description}</p>}
      <Reading query={flows} />
      <Reading query={runs} quiet={flows.isLoading} />
      {runs.data && <TrendCard runs={runs.data} />}
      <div className="flow-columns">
        <div className="stack">
          {runs.data && <Tasks runs={runs.data} />}
          {found && <Params name={name} params={found.params} />}
        </div>
        <div className="stack">
          {runs.data && <Runs name={name} runs={runs.data} />}
          <Schedules name={name} />
          <Serving name={name} />
        </div>
      </div>
      {opened && <Submit flow={opened} onClose={() => rewrite({ start: null })} />}
    </Page>
  )
}

function FlowActions({ flow }: { flow: KnownFlow }): JSX.Element {
  return (
    <>
      <a className="button" href={`#/schedules?new=1&flow=${part(flow.flow_name)}`}>
        {t('flows.schedule')}
      </a>
      <button type="button" className="main" onClick={() => rewrite({ start: '1' })}>
        {t('flows.start')}
      </button>
    </>
  )
}

function Card({ title, more, children }: { title: string; more?: ReactNode; children: ReactNode }): JSX.Element {
  return (
    <section className="card" aria-label={title}>
      <div className="card-head">
        <h2>{title}</h2>
        {more}
      </div>
      {children}
    </section>
  )
}

function Tasks({ runs }: { runs: RunSummary[] }): JSX.Element {
  const started = runs
    .toSorted((one, other) => other.submitted_at - one.submitted_at)
    .find((one) => one.start_time !== null)
  const id = started?.run_id ?? ''
  const graph = useQuery({
    queryKey: ['graph', id],
    queryFn: () => get<RunGraph>(`/runs/${part(id)}/graph`),
    enabled: id !== '',
  })
  const run = useQuery({
    queryKey: ['run of flow', id, started?.updated_at],
    queryFn: () => get<Run>(`/runs/${part(id)}`, { include: 'records' }),
    enabled: id !== '',
    placeholderData: (before) => (before?.run_id === id ? before : undefined),
  })
  const states = useMemo(
    () => new Map(Object.keys(run.data?.tasks ?? {}).map((task) => [task, stateOf(run.data as Run, task)])),
    [run.data],
  )
  return (
    <Card title={t('flow.graph')}>
      {started === undefined ? (
        <p className="faint-text">{t('flow.graphNone')}</p>
      ) : (
        <>
          <p className="faint-text">
            {t('flow.graphOf')}{' '}
            <a className="mono" href={`#/runs/${part(id)}`}>
              {short(id)}
            </a>
          </p>
          <Reading query={graph} />
          {graph.data && (
            <Graph
              graph={graph.data}
              over
              standing={states}
              takenOver={NONE}
              selected={null}
              select={(task) => go(`/runs/${part(id)}${task ? `?task=${part(task)}` : ''}`)}
            />
          )}
        </>
      )}
    </Card>
  )
}

function Params({ name, params }: { name: string; params: Param[] | null }): JSX.Element {
  return (
    <Card title={t('flow.params')}>
      {params === null && <p className="faint-text">{t('flow.paramsUnknown')}</p>}
      {params?.length === 0 && <p className="faint-text">{t('form.none')}</p>}
      {params !== null && params.length > 0 && (
        <TableBox label={`${t('flow.params')}: ${name}`}>
          <thead>
            <tr>
              <th scope="col">{t('flow.param')}</th>
              <th scope="col">{t('flow.type')}</th>
              <th scope="col">{t('flow.default')}</th>
            </tr>
          </thead>
          <tbody>
            {params.map((one) => (
              <tr key={one.name} data-param={one.name}>
                <td>
                  <code>{one.name}</code>
                  {(one.schema as Schema | undefined)?.description && (
                    <small>{(one.schema as Schema).description}</small>
                  )}
                </td>
                <td>
                  <code>{one.type ?? '–'}</code>
                </td>
                <td>
                  {'default' in one ? (
                    <code>{JSON.stringify(one.default)}</code>
                  ) : (
                    <span className="faint-text">{one.required ? t('flows.submit.required') : '–'}</span>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </TableBox>
      )}
    </Card>
  )
}

function Runs({ name, runs }: { name: string; runs: RunSummary[] }): JSX.Element {
  const all = (
    <a href={`#/runs?flow=${part(name)}`} className="small-link">
      {t('flow.allRuns')}
    </a>
  )
  const latest = runs.toSorted((one, other) => other.submitted_at - one.submitted_at).slice(0, LISTED_MAX)
  return (
    <Card title={t('flow.runs')} more={all}>
      {runs.length === 0 && <p className="faint-text">{t('flow.noRuns')}</p>}
      {runs.length > 0 && (
        <ul className="plain-list">
          {latest.map((run) => (
            <li key={run.run_id} data-run={run.run_id}>
              <a href={`#/runs/${part(run.run_id)}`}>
                <Status status={standing(run)} />
                <span className="mono">{short(run.run_id)}</span>
              </a>
              <span className="faint-text">
                <Ago at={run.submitted_at} />
              </span>
              <span className="faint-text right">
                <Span from={run.start_time} to={run.end_time} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function Schedules({ name }: { name: string }): JSX.Element {
  const list = useQuery({ queryKey: ['schedules'], queryFn: () => get<Schedule[]>('/schedules', { upcoming: 5 }) })
  useReread('schedules', ['schedules'])
  const own = list.data?.filter((one) => one.flow_name === name)
  return (
    <Card title={t('flow.schedules')}>
      <Reading query={list} quiet />
      {own?.length === 0 && <p className="faint-text">{t('flow.noSchedules')}</p>}
      {own && own.length > 0 && (
        <ul className="plain-list">
          {own.map((one) => (
            <li key={one.schedule_id}>
              <a href="#/schedules">
                <WhenText schedule={one} />
              </a>
              <span className="faint-text right">
                <Ago at={one.next_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

function Serving({ name }: { name: string }): JSX.Element {
  const workers = useWorkers()
  const own = workers?.filter((one) => one.flows && name in one.flows && one.state !== 'STOPPED_GRACEFUL')
  return (
    <Card title={t('flow.workers')}>
      {workers === null && <p className="loading">{t('loading')}</p>}
      {own?.length === 0 && <p className="faint-text">{t('flow.noWorkers')}</p>}
      {own && own.length > 0 && (
        <ul className="plain-list">
          {own.map((one) => (
            <li key={one.worker_id} data-worker={one.worker_id}>
              <a href="#/workers">{one.worker_id}</a>
              <span>
                {one.tags.map((tag) => (
                  <span key={tag} className="tag">
                    {tag}
                  </span>
                ))}
              </span>
              <span className="faint-text right">
                {one.slots !== undefined && t('flow.slots', { free: one.free_slots ?? 0, all: one.slots })}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Card>
  )
}

/** Its runs change: told by the stream, read a moment later. */
function useRereadWithRuns(name: string): void {
  const queries = useQueryClient()
  useOnRuns(
    useCallback((run: RunSummary) => run.flow_name === name, [name]),
    REREAD_MS,
    useCallback(() => {
      void reread(queries, ['runs of', name])
      void reread(queries, ['flows'])
    }, [queries, name]),
  )
}
