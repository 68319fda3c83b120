// One run: how it stands and why, what it looks like, what happened when, what it printed; all at one moment.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useMemo, useState } from 'react'
import { get, part } from '../../api/client'
import type { ExecutionEvent } from '../../api/executions'
import { type RunGraph, type Run as RunNow, TERMINAL } from '../../api/types'
import { now } from '../../live/now'
import { rewrite, usePlace } from '../../live/place'
import { useTabIcon } from '../../live/tab-icon'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { toneOf } from '../../parts/status'
import { Wrong } from '../../parts/wrong'
import { clock, short } from '../../text/format'
import { type Key, t, word } from '../../text/text'
import { RunWaits } from '../approvals/approvals'
import { Actions } from './actions'
import { Again } from './again'
import { Answers } from './answers'
import { CancelStory } from './cancel-story'
import { Details } from './details'
import { Events } from './events'
import { isTakenOver } from './fork'
import { Gantt } from './gantt'
import { Graph } from './graph'
import { Head } from './head'
import { Log, useRoom } from './log/log'
import { standingOf, useLoss } from './loss'
import { Neighbours } from './neighbours'
import { type Moment, momentOf, standingAt, stateOf, storyOf, storyOfRecords, withLoss } from './story'
import { useRun } from './use-run'
import { WhyLine } from './why'

export default function Run({ id }: { id: string }): JSX.Element {
  const { run, events, error, hasEvents, again } = useRun(id)
  if (error)
    return (
      <Page title={t('run.title', { id: short(id) })}>
        {error.status === 404 ? <p className="empty">{t('run.notFound')}</p> : <Wrong error={error} again={again} />}
      </Page>
    )
  if (run === null) return <p className="loading">{t('loading')}</p>
  return <Shown run={run} events={events} hasEvents={hasEvents} />
}

function Shown({ run, events, hasEvents }: { run: RunNow; events: ExecutionEvent[]; hasEvents: boolean }): JSX.Element {
  const [cursor, setCursor] = useState<Moment | null>(null)
  const task = usePlace().query.get('task')
  const room = useRoom()
  // Whether it is to be run again, and if so from which task on.
  const [again, setAgain] = useState<{ task: string | null } | null>(null)
  const loss = useLoss(run)
  const lostAt = loss?.at ?? null
  const story = useMemo(
    () => withLoss(hasEvents ? storyOf(events) : storyOfRecords(run), lostAt),
    [events, hasEvents, run, lostAt],
  )
  const planned = Object.keys(run.tasks).length
  const graph = useQuery({
    queryKey: ['graph', run.run_id, planned],
    queryFn: () => get<RunGraph>(`/runs/${part(run.run_id)}/graph`),
    enabled: planned > 0,
    placeholderData: (before) => before,
  })
  const standing = useMemo(() => {
    if (cursor !== null) return standingAt(story, cursor)
    const now = (name: string) => {
      const state = stateOf(run, name)
      return lostAt !== null && state === 'RUNNING' ? 'LOST' : state
    }
    return new Map(Object.keys(run.tasks).map((name) => [name, now(name)]))
  }, [story, cursor, run, lostAt])
  const past = useMemo(
    () => ({ run, graph: graph.data ?? null, changes: hasEvents ? story.changes : [] }),
    [run, graph.data, hasEvents, story],
  )
  const over = TERMINAL.has(run.status)
  const fork = (chosen: string) => setAgain({ task: chosen })
  const takenOver = useMemo(() => new Set(Object.keys(run.tasks).filter((name) => isTakenOver(run, name))), [run])
  const moveTo = (at: number | null) => setCursor(at === null ? null : momentOf(at, events))
  const stands = standingOf(run, loss)
  useTabIcon(toneOf(stands))
  return (
    <Page
      title={run.flow_name}
      heading={<a href={`#/flows/${part(run.flow_name)}`}>{run.flow_name}</a>}
      tab={`${word(`status.${stands}`, stands)} · ${run.flow_name} ${short(run.run_id)}`}
      actions={
        <>
          <Neighbours run={run} />
          <Actions run={run} again={() => setAgain({ task: null })} />
        </>
      }
      className="run"
    >
      <Head run={run} loss={loss} />
      <WhyLine run={run} />
      <CancelStory run={run} events={events} />
      <Answers events={events} />
      <RunWaits run={run} />
      <section className="card" aria-label={t('run.graph')}>
        <div className="card-head">
          <h2>{t('run.graph')}</h2>
          {cursor && <span className="at-moment">{t('run.at', { at: clock(cursor.at, true) })}</span>}
          {over && task !== null && (
            <button type="button" className="small" title={task} onClick={() => fork(task)}>
              {t('run.fork')}
            </button>
          )}
        </div>
        <Reading query={graph} quiet />
        <Graph
          graph={graph.data ?? null}
          over={over}
          standing={standing}
          takenOver={takenOver}
          selected={task}
          select={setTask}
        />
      </section>
      <div className="run-grid" data-room={room ?? undefined}>
        <section className="card" aria-label={t('run.gantt')}>
          <div className="card-head">
            <h2>{t('run.gantt')}</h2>
            {cursor && (
              <button type="button" className="small" onClick={() => moveTo(null)}>
                {t('run.live')}
              </button>
            )}
          </div>
          <Gantt
            run={run}
            story={story}
            cursor={cursor?.at ?? null}
            moveTo={moveTo}
            selected={task}
            select={setTask}
            end={over ? (run.end_time ?? run.updated_at) : null}
            now={now}
          />
        </section>
        <Panels run={run} events={events} cursor={cursor} goTo={setCursor} task={task} select={setTask} fork={fork} />
      </div>
      {again && <Again past={past} task={again.task} onClose={() => setAgain(null)} />}
    </Page>
  )
}

/** The task that is looked at stands in the address: graph, timeline, log and details all mean the same one. */
const setTask = (task: string | null) => rewrite({ task })

const TABS = ['log', 'events', 'details'] as const

function Panels(props: {
  run: RunNow
  events: ExecutionEvent[]
  cursor: Moment | null
  goTo: (moment: Moment | null) => void
  task: string | null
  select: (task: string | null) => void
  fork: (task: string) => void
}): JSX.Element {
  const { query } = usePlace()
  const tab = TABS.find((one) => one === query.get('tab')) ?? 'log'
  return (
    <section className="card panels">
      <div role="tablist" className="tabs" onKeyDown={(event) => turn(event, tab)}>
        {TABS.map((one) => (
          <button
            key={one}
            role="tab"
            type="button"
            id={`tab-${one}`}
            aria-selected={tab === one}
            aria-controls="panel"
            tabIndex={tab === one ? 0 : -1}
            onClick={() => rewrite({ tab: one })}
          >
            {t(`run.${one}` as Key)}
          </button>
        ))}
      </div>
      <div role="tabpanel" id="panel" aria-labelledby={`tab-${tab}`} className="panel">
        {tab === 'log' && (
          <Log
            id={props.run.run_id}
            tasks={Object.keys(props.run.tasks)}
            over={TERMINAL.has(props.run.status)}
            at={props.cursor?.at ?? null}
            task={props.task}
            select={props.select}
          />
        )}
        {tab === 'events' && <Events events={props.events} cursor={props.cursor} goTo={props.goTo} />}
        {tab === 'details' && <Details run={props.run} task={props.task} fork={props.fork} />}
      </div>
    </section>
  )
}

function turn(event: React.KeyboardEvent, tab: (typeof TABS)[number]): void {
  const by = event.key === 'ArrowRight' ? 1 : event.key === 'ArrowLeft' ? -1 : 0
  if (by === 0) return
  const next = TABS[(TABS.indexOf(tab) + by + TABS.length) % TABS.length] as string
  rewrite({ tab: next })
  document.getElementById(`tab-${next}`)?.focus()
}
