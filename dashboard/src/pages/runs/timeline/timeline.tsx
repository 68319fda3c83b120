// Recent runs of each flow as bars: over time, or one beside the other with their durations.
import { type JSX, memo, useMemo } from 'react'
import { part } from '../../../api/client'
import type { RunSummary } from '../../../api/types'
import { now, useNow } from '../../../live/now'
import { rewrite, usePlace } from '../../../live/place'
import { Empty } from '../../../parts/empty'
import { toneOf } from '../../../parts/status'
import { Wrong } from '../../../parts/wrong'
import { clock, exact, number, short, span } from '../../../text/format'
import { type Key, t, word } from '../../../text/text'
import type { Filters } from '../filters'
import { type Bar, GRID_RUNS, gridOf, heightsOf, type Row, rowsOf, stateOf, ticksOf, WINDOWS } from './lanes'
import { RUNS_MAX, useTimeline } from './use-timeline'

const FLOWS_MAX = 100
const LEGEND = ['COMPLETED', 'FAILED', 'RUNNING', 'WAITING', 'CANCELLED']
/** The right edge moves by about a pixel at a time. */
const STEPS = 720

export function Timeline({ filters }: { filters: Filters }): JSX.Element {
  const { query } = usePlace()
  const chosen = query.get('window') ?? ''
  const window = chosen in WINDOWS ? chosen : 'hour'
  const seconds = WINDOWS[window] as number
  const isGrid = query.get('bars') === 'runs'
  const { runs, cut, loading, error, again } = useTimeline(filters, seconds)
  useNow()
  const step = seconds / STEPS
  const to = Math.ceil(now() / step) * step
  const rows = useMemo(
    () => (isGrid ? gridOf(runs.values()) : rowsOf(runs.values(), to - seconds, to)),
    [runs, isGrid, to, seconds],
  )
  return (
    <div className="timeline">
      <div className="timeline-head">
        <Buttons
          label={t('timeline.window')}
          options={Object.keys(WINDOWS).map((one) => [one, t(`timeline.window.${one}` as Key)])}
          value={window}
          choose={(one) => rewrite({ window: one === 'hour' ? null : one })}
        />
        <Buttons
          label={t('timeline.bars')}
          options={[
            ['time', t('timeline.bars.time')],
            ['runs', t('timeline.bars.runs')],
          ]}
          value={isGrid ? 'runs' : 'time'}
          choose={(one) => rewrite({ bars: one === 'time' ? null : one })}
        />
        <ul className="legend" aria-label={t('timeline.legend')}>
          {LEGEND.map((one) => (
            <li key={one}>
              <i className={`run-bar tone-${toneOf(one)}`} data-status={one} aria-hidden="true" />
              {t(`status.${one}` as Key)}
            </li>
          ))}
        </ul>
      </div>
      {error ? <Wrong error={error} again={again} /> : null}
      {cut && (
        <p className="notice" role="status">
          {t('timeline.cut', { n: number(RUNS_MAX) })}
        </p>
      )}
      {rows.length === 0 && !error ? (
        loading ? (
          <p className="loading">{t('loading')}</p>
        ) : (
          <Empty title={t('timeline.none.title')} text={t('timeline.none.text')} />
        )
      ) : (
        <Rows rows={rows} isGrid={isGrid} from={to - seconds} to={to} />
      )}
      {rows.length > FLOWS_MAX && <p className="faint-text">{t('timeline.more', { n: rows.length - FLOWS_MAX })}</p>}
    </div>
  )
}

function Rows({ rows, isGrid, from, to }: { rows: Row[]; isGrid: boolean; from: number; to: number }): JSX.Element {
  return (
    <div className="timeline-rows">
      <div className="timeline-row axis" aria-hidden="true">
        <span>{t('runs.flow')}</span>
        <span className="track">
          {isGrid ? (
            <em>{t('timeline.latest', { n: GRID_RUNS })}</em>
          ) : (
            ticksOf(from, to).map((at) => <em key={at}>{clock(at).slice(0, 5)}</em>)
          )}
        </span>
      </div>
      {rows.slice(0, FLOWS_MAX).map((row) => (
        <FlowRow key={row.flow} row={row} isGrid={isGrid} />
      ))}
    </div>
  )
}

function FlowRow({ row, isGrid }: { row: Row; isGrid: boolean }): JSX.Element {
  const heights = isGrid ? heightsOf(row.bars, now()) : null
  const figures = t(row.failed ? 'timeline.failed' : 'timeline.runs', { n: row.bars.length, failed: row.failed })
  return (
    <section className="timeline-row" data-flow={row.flow} aria-label={row.flow}>
      <span className="timeline-flow">
        <a href={`#/flows/${part(row.flow)}`} title={row.flow}>
          {row.flow}
        </a>
        <small>{figures}</small>
      </span>
      <span
        className="track"
        data-grid={isGrid || undefined}
        style={{ height: isGrid ? 40 : row.lanes * 14 + 8 }}
        onKeyDown={alongBars}
        role="group"
        aria-label={t('timeline.runsOf', { flow: row.flow })}
      >
        {row.bars.map((bar, place) => (
          <RunBar
            key={bar.run.run_id}
            run={bar.run}
            left={bar.left}
            width={bar.width}
            top={heights ? null : bar.lane * 14 + 5}
            height={heights ? (heights[place] as number) : null}
            isStop={place === row.bars.length - 1}
          />
        ))}
      </span>
    </section>
  )
}

type BarProps = Pick<Bar, 'run' | 'left' | 'width'> & { top: number | null; height: number | null; isStop: boolean }

/** One tab stop for each flow; the arrows go from run to run. */
const RunBar = memo(function RunBar({ run, left, width, top, height, isStop }: BarProps): JSX.Element {
  const state = stateOf(run)
  // Bars move all the time, and what they say does not change with it.
  const said = useMemo(() => saidOf(run, state), [run, state])
  return (
    <a
      className={`run-bar tone-${toneOf(state)}`}
      data-status={state}
      href={`#/runs/${part(run.run_id)}`}
      tabIndex={isStop ? 0 : -1}
      title={said}
      style={{
        left: `${left}%`,
        width: `${width}%`,
        ...(height === null ? { top: top ?? 0 } : { height: `${height}%`, bottom: 0 }),
      }}
    >
      <span className="unseen">{said}</span>
    </a>
  )
})

function saidOf(run: RunSummary, state: string): string {
  const said = [short(run.run_id), word(`status.${state}`, state), exact(run.start_time ?? run.submitted_at)]
  if (run.start_time !== null && run.end_time !== null) said.push(span(Math.max(0, run.end_time - run.start_time)))
  if (run.retry_of) said.push(t('runs.retryOf', { id: short(run.retry_of) }))
  return said.join(' · ')
}

function alongBars(event: React.KeyboardEvent): void {
  const by = { ArrowLeft: 'previousElementSibling', ArrowRight: 'nextElementSibling' } as const
  const to = by[event.key as keyof typeof by]
  const next = to && (event.target as HTMLElement)[to]
  if (next instanceof HTMLElement) {
    event.preventDefault()
    event.stopPropagation()
    next.focus()
  }
}

function Buttons(props: {
  label: string
  options: [string, string][]
  value: string
  choose: (value: string) => void
}): JSX.Element {
  return (
    <div className="segments" role="group" aria-label={props.label}>
      {props.options.map(([value, said]) => (
        <button key={value} type="button" aria-pressed={value === props.value} onClick={() => props.choose(value)}>
          {said}
        </button>
      ))}
    </div>
  )
}

/** The list or the timeline; both have the filters of the address. */
export function ShowAs({ isTimeline }: { isTimeline: boolean }): JSX.Element {
  return (
    <Buttons
      label={t('timeline.show')}
      options={[
        ['list', t('timeline.list')],
        ['timeline', t('timeline.timeline')],
      ]}
      value={isTimeline ? 'timeline' : 'list'}
      choose={(one) => rewrite({ show: one === 'list' ? null : one })}
    />
  )
}
