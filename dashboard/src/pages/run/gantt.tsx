// Tasks over time: queue, attempts and waits as bars, and the cursor that everything on the page follows.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type JSX, useRef } from 'react'
import type { Run } from '../../api/types'
import { useNow } from '../../live/now'
import { toneOf } from '../../parts/status'
import { clock, span } from '../../text/format'
import { t, word } from '../../text/text'
import type { Story, Stretch } from './story'

const ROW = 24
const LEAST_SEC = 0.001
const STEPS = 1000

type Props = {
  run: Run
  story: Story
  cursor: number | null
  moveTo: (at: number | null) => void
  selected: string | null
  select: (task: string | null) => void
  end: number | null
  now: () => number
}

export function Gantt(props: Props): JSX.Element {
  useNow()
  const { run, story, cursor } = props
  const box = useRef<HTMLDivElement>(null)
  const from = run.submitted_at
  const to = Math.max(from + LEAST_SEC, props.end ?? props.now())
  const place = (at: number) => ((Math.min(Math.max(at, from), to) - from) / (to - from)) * 100
  const virtual = useVirtualizer({
    count: story.nodes.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 8,
  })
  return (
    <div className="gantt">
      <div className="gantt-scale" aria-hidden="true">
        <span>{clock(from)}</span>
        <span>+{span((to - from) / 2)}</span>
        <span>+{span(to - from)}</span>
      </div>
      <div className="gantt-row">
        <span className="gantt-name faint-text" title={t('run.queue')}>
          {t('run.queued')}
        </span>
        <span className="gantt-track">
          <Bar
            stretch={{ kind: 'queue', from, to: run.start_time ?? run.end_time, attempt: 0, status: 'PENDING' }}
            place={place}
            to={to}
          />
        </span>
      </div>
      <div className="gantt-rows" ref={box}>
        {story.nodes.length === 0 && (
          <p className="faint-text">{t(props.end === null ? 'run.noTasks' : 'run.noTasksEver')}</p>
        )}
        <div className="rows-all" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const name = story.nodes[item.index] as string
            return (
              <div
                key={name}
                className={`gantt-row at-place${props.selected === name ? ' chosen' : ''}`}
                style={{ transform: `translateY(${item.start}px)` }}
              >
                <button
                  type="button"
                  className="plain gantt-name"
                  title={name}
                  aria-pressed={props.selected === name}
                  onClick={() => props.select(props.selected === name ? null : name)}
                >
                  {name}
                </button>
                <span className="gantt-track">
                  {(story.stretches.get(name) ?? []).map((stretch) => (
                    <Bar
                      key={`${stretch.kind} ${stretch.attempt} ${stretch.from}`}
                      stretch={stretch}
                      place={place}
                      to={to}
                    />
                  ))}
                </span>
              </div>
            )
          })}
        </div>
      </div>
      <div className="gantt-row gantt-cursor">
        <label className="gantt-name" htmlFor="cursor">
          {t('run.cursor')}
        </label>
        <span className="gantt-track">
          <input
            id="cursor"
            type="range"
            min={0}
            max={STEPS}
            value={cursor === null ? STEPS : (place(cursor) / 100) * STEPS}
            aria-valuetext={cursor === null ? t('run.now') : clock(cursor, true)}
            onChange={(event) => {
              const step = Number(event.target.value)
              props.moveTo(step >= STEPS ? null : from + (step / STEPS) * (to - from))
            }}
          />
        </span>
      </div>
      {cursor !== null && (
        <div className="gantt-lines" aria-hidden="true">
          <span style={{ left: `${place(cursor)}%` }} />
        </div>
      )}
    </div>
  )
}

function Bar({ stretch, place, to }: { stretch: Stretch; place: (at: number) => number; to: number }): JSX.Element {
  const left = place(stretch.from)
  const width = Math.max(0.4, place(stretch.to ?? to) - left)
  const what =
    stretch.kind === 'attempt'
      ? `${t('run.attempt', { n: stretch.attempt })} · ${word(`status.${stretch.status}`, stretch.status)}`
      : t(stretch.kind === 'wait' ? 'run.waiting' : 'run.queue')
  return (
    <span
      className={`gantt-bar ${stretch.kind} tone-${toneOf(stretch.status)}`}
      data-status={stretch.status}
      title={`${what} · ${span((stretch.to ?? to) - stretch.from)}`}
      style={{ left: `${Math.min(left, 99.6)}%`, width: `${width}%` }}
    />
  )
}
