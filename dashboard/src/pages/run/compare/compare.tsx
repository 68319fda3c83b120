// Two runs of a flow side by side: how they ended, how long each task took, their parameters and results.
import { useQuery } from '@tanstack/react-query'
import { type JSX, type ReactNode, useEffect, useState } from 'react'
import { ApiError, get, part } from '../../../api/client'
import type { Run, RunSummary, Page as RunsPage } from '../../../api/types'
import { TERMINAL } from '../../../api/types'
import { go, goInstead } from '../../../live/place'
import { useOnRuns } from '../../../live/reread'
import { Empty } from '../../../parts/empty'
import { Page } from '../../../parts/page'
import { Reading } from '../../../parts/reading'
import { Status } from '../../../parts/status'
import { Ago, Span } from '../../../parts/time'
import { exact, short, span } from '../../../text/format'
import { t, word } from '../../../text/text'
import { standing } from '../../runs/filters'
import { standingOf } from '../loss'
import { type Difference, differencesOf, longerBy, tasksOf } from './differences'

const CHOICES_MAX = 50
const READ_AGAIN_MS = 1000

export default function Compare({ id, other }: { id: string; other: string | null }): JSX.Element {
  const run = useWholeRun(id)
  const title = t('compare.title', { flow: run.data?.flow_name ?? short(id) })
  return (
    <Page
      title={title}
      className="compare"
      actions={
        <a className="button" href={`#/runs/${part(id)}`}>
          {t('compare.back', { id: short(id) })}
        </a>
      }
    >
      <Reading query={run} />
      {run.data && <Choose run={run.data} other={other} />}
      {run.data && other && <Pair left={run.data} other={other} />}
    </Page>
  )
}

/** Read again when it changes, until it has ended. */
function useWholeRun(id: string) {
  const run = useQuery({
    queryKey: ['compared', id],
    queryFn: () => get<Run>(`/runs/${part(id)}`, { include: 'records' }),
  })
  const { refetch } = run
  useOnRuns(
    (one) => one.run_id === id,
    READ_AGAIN_MS,
    () => void refetch(),
  )
  return run
}

/** The latest runs of the same flow. */
function Choose({ run, other }: { run: Run; other: string | null }): JSX.Element {
  const runs = useQuery({
    queryKey: ['comparable', run.flow_name],
    queryFn: () => get<RunsPage>('/runs', { flow: run.flow_name, sort: '-submitted', limit: CHOICES_MAX }),
  })
  const choices = (runs.data?.items ?? []).filter((one) => one.run_id !== run.run_id)
  const chosen = other === null ? suggested(run, choices)?.run_id : undefined
  useEffect(() => {
    if (chosen) goInstead(`/runs/${part(run.run_id)}/compare/${part(chosen)}`)
  }, [run.run_id, chosen])
  const isListed = other === null || choices.some((one) => one.run_id === other)
  if (runs.isSuccess && choices.length === 0 && other === null)
    return <Empty title={t('compare.none.title')} text={t('compare.none.text')} />
  return (
    <>
      <label className="compare-with">
        <span>{t('compare.with')}</span>
        <select
          value={other ?? ''}
          onChange={(event) => go(`/runs/${part(run.run_id)}/compare/${part(event.target.value)}`)}
        >
          {other === null && <option value="">{t('compare.choose')}</option>}
          {!isListed && other && <option value={other}>{short(other)}</option>}
          {choices.map((one) => (
            <option key={one.run_id} value={one.run_id}>
              {said(one)}
            </option>
          ))}
        </select>
      </label>
      <Reading query={runs} quiet />
    </>
  )
}

/** The run before it, or the newest other one. `choices` are sorted by their submission, the newest first. */
function suggested(run: Run, choices: RunSummary[]): RunSummary | undefined {
  return choices.find((one) => one.submitted_at <= run.submitted_at) ?? choices[0]
}

function said(run: RunSummary): string {
  return `${short(run.run_id)} · ${word(`status.${standing(run)}`, standing(run))} · ${exact(run.submitted_at)}`
}

function Pair({ left, other }: { left: Run; other: string }): JSX.Element {
  const run = useWholeRun(other)
  const right = run.data
  if (!right) return <Reading query={run} />
  return (
    <>
      {left.flow_name !== right.flow_name && (
        <p className="notice" role="status">
          {t('compare.otherFlow', { flow: right.flow_name })}
        </p>
      )}
      <Facts left={left} right={right} />
      <Tasks left={left} right={right} />
      <Values title={t('run.params')} left={left.params} right={right.params} none={t('compare.noParams')} />
      <Results left={left} right={right} />
    </>
  )
}

function Facts({ left, right }: { left: Run; right: Run }): JSX.Element {
  const both = (shown: (run: Run) => JSX.Element | string) => [shown(left), shown(right)] as const
  const rows: [string, readonly [JSX.Element | string, JSX.Element | string], number | null][] = [
    [t('runs.status'), both((run) => <Status status={standingOf(run, null)} />), null],
    [t('run.submitted'), both((run) => <Ago at={run.submitted_at} />), null],
    [
      t('run.waited'),
      both((run) => <Span from={run.submitted_at} to={run.start_time ?? run.end_time} />),
      longerBy(waitOf(right), waitOf(left)),
    ],
    [
      t('run.ran'),
      both((run) => <Span from={run.start_time} to={run.end_time} />),
      longerBy(ranOf(right), ranOf(left)),
    ],
    [t('run.worker'), both((run) => run.worker_id ?? '–'), null],
    [t('run.tag'), both((run) => <span className="tag">{run.tag}</span>), null],
    [t('run.retryOf'), both((run) => (run.retry_of ? short(run.retry_of) : '–')), null],
    [t('run.error'), both((run) => (run.error ? <span className="compare-error">{run.error}</span> : '–')), null],
  ]
  return (
    <section className="card">
      <h2>{t('compare.summary')}</h2>
      <div className="table-box" role="region" aria-label={t('compare.summary')} tabIndex={0}>
        <table className="compare-table">
          <Heads left={left} right={right} first={<span className="unseen">{t('compare.summary')}</span>} />
          <tbody>
            {rows.map(([name, [one, two], longer]) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td>{one}</td>
                <td>{two}</td>
                <td className="number">
                  <Longer seconds={longer} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function Heads({ left, right, first }: { left: Run; right: Run; first: ReactNode }): JSX.Element {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {[left, right].map((run, side) => (
          <th key={side === 0 ? 'left' : 'right'} scope="col">
            <a className="mono" href={`#/runs/${part(run.run_id)}`}>
              {short(run.run_id)}
            </a>
          </th>
        ))}
        <th scope="col" className="number">
          <span title={t('compare.differenceTitle', { one: short(left.run_id), two: short(right.run_id) })}>
            {t('compare.difference')}
          </span>
        </th>
      </tr>
    </thead>
  )
}

const waitOf = (run: Run) => {
  const until = run.start_time ?? run.end_time
  return until === null ? null : until - run.submitted_at
}
const ranOf = (run: Run) => (run.start_time === null || run.end_time === null ? null : run.end_time - run.start_time)

function Longer({ seconds }: { seconds: number | null }): JSX.Element | null {
  if (seconds === null) return null
  const sign = Math.abs(seconds) < 0.0005 ? '' : seconds > 0 ? '+' : '−'
  return (
    <span>
      {sign}
      {span(Math.abs(seconds))}
    </span>
  )
}

function Tasks({ left, right }: { left: Run; right: Run }): JSX.Element {
  const pairs = tasksOf(left, right)
  const longest = Math.max(0.001, ...pairs.flatMap((pair) => [pair.left?.seconds ?? 0, pair.right?.seconds ?? 0]))
  return (
    <section className="card">
      <h2>{t('compare.tasks')}</h2>
      {pairs.length === 0 ? (
        <p className="faint-text">{t('run.noTasksEver')}</p>
      ) : (
        <div className="table-box" role="region" aria-label={t('compare.tasks')} tabIndex={0}>
          <table className="compare-table">
            <Heads left={left} right={right} first={t('log.task')} />
            <tbody>
              {pairs.map((pair) => (
                <tr key={pair.name} data-task={pair.name}>
                  <th scope="row" title={pair.name}>
                    {pair.name}
                  </th>
                  {[pair.left, pair.right].map((side, number) => (
                    <td key={number === 0 ? 'left' : 'right'}>
                      {side === null ? (
                        t('compare.noTask')
                      ) : (
                        <span className="compare-task">
                          <Status status={side.state} />
                          {side.seconds !== null && (
                            <>
                              <i style={{ width: `${(side.seconds / longest) * 100}%` }} aria-hidden="true" />
                              <span>{span(side.seconds)}</span>
                            </>
                          )}
                        </span>
                      )}
                    </td>
                  ))}
                  <td className="number">
                    <Longer seconds={longerBy(pair.right?.seconds, pair.left?.seconds)} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

function Results({ left, right }: { left: Run; right: Run }): JSX.Element {
  const one = useResult(left)
  const two = useResult(right)
  const reading = [one, two].find((query) => query.isError && !isNone(query.error))
  if (reading) return <Reading query={reading} />
  return (
    <Values
      title={t('run.result')}
      left={one.data}
      right={two.data}
      none={t(TERMINAL.has(left.status) && TERMINAL.has(right.status) ? 'compare.noResult' : 'run.noResult')}
    />
  )
}

const isNone = (error: unknown) => error instanceof ApiError && error.status === 404

function useResult(run: Run) {
  return useQuery({
    queryKey: ['result', run.run_id],
    queryFn: () => get<unknown>(`/runs/${part(run.run_id)}/result`),
    enabled: run.status === 'COMPLETED',
  })
}

function Values(props: { title: string; left: unknown; right: unknown; none: string }): JSX.Element {
  const { left, right, title } = props
  const [onlyDifferent, setOnlyDifferent] = useState(true)
  const { rows, cut } = differencesOf(left, right)
  const different = rows.filter((row) => row.differs)
  const shown = onlyDifferent ? different : rows
  const isEmpty = rows.every((row) => row.left === undefined && row.right === undefined) || isBare(left, right)
  return (
    <section className="card">
      <div className="card-head">
        <h2>{title}</h2>
        {!isEmpty && (
          <label className="check">
            <input type="checkbox" checked={onlyDifferent} onChange={() => setOnlyDifferent(!onlyDifferent)} />
            {t('compare.onlyDifferent', { n: different.length, all: rows.length })}
          </label>
        )}
      </div>
      {isEmpty ? (
        <p className="faint-text">{props.none}</p>
      ) : shown.length === 0 ? (
        <p className="faint-text">{t('compare.same')}</p>
      ) : (
        <div className="table-box" role="region" aria-label={title} tabIndex={0}>
          <table className="compare-table">
            <tbody>
              {shown.map((row) => (
                <Row key={row.path} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {cut && <p className="faint-text">{t('compare.cut', { n: rows.length })}</p>}
    </section>
  )
}

const isBare = (left: unknown, right: unknown) => JSON.stringify([left, right]) === '[{},{}]'

function Row({ row }: { row: Difference }): JSX.Element {
  return (
    <tr data-differs={row.differs}>
      <th scope="row" className="mono">
        {row.path || t('compare.whole')}
      </th>
      <Side value={row.left} />
      <Side value={row.right} />
    </tr>
  )
}

function Side({ value }: { value: unknown }): JSX.Element {
  return (
    <td className="mono">
      {value === undefined ? <span className="faint-text">{t('compare.missing')}</span> : JSON.stringify(value)}
    </td>
  )
}
