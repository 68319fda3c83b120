// Rows that are seen, of any number there are; with a place of its own for the keyboard.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type JSX, memo, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { part } from '../../api/client'
import type { RunSummary } from '../../api/types'
import { type Keys, useKeys } from '../../live/keys'
import { useNarrow } from '../../live/narrow'
import { go, rewrite } from '../../live/place'
import { Status } from '../../parts/status'
import { Ago, Span } from '../../parts/time'
import { Icon } from '../../shell/icon'
import { number, short } from '../../text/format'
import { t } from '../../text/text'
import { useWorkers } from '../workers/use-workers'
import { standing } from './filters'
import { type Column, turned } from './order'
import type { RunListView } from './use-run-list'
import { reasonOf } from './why'

const ROW = 34
const ROW_NARROW = 92
const AHEAD_ROWS = 60

export function Table(props: {
  rows: RunSummary[]
  fresh: number
  freshMore: boolean
  whole: boolean
  loading: boolean
  list: RunListView
  /** Empty: by the latest change. */
  sort: string
  selected: ReadonlySet<string>
  select: (next: ReadonlySet<string>) => void
}): JSX.Element {
  const { rows, list, selected, select } = props
  const box = useRef<HTMLDivElement>(null)
  const narrow = useNarrow()
  const [at, setAt] = useState(-1)
  const workers = useWorkers()
  // Who comes back to the list finds it where it was.
  const [begin] = useState(list.px)
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => (narrow ? ROW_NARROW : ROW),
    overscan: 12,
    initialOffset: begin,
  })
  useLayoutEffect(() => {
    if (box.current && begin > 0) box.current.scrollTop = begin
  }, [begin])
  // biome-ignore lint/correctness/useExhaustiveDependencies: rows have another height when it is narrow
  useEffect(() => virtual.measure(), [narrow, virtual])
  const items = virtual.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (!props.whole && !props.loading && last >= rows.length - AHEAD_ROWS) list.more()
  }, [last, rows.length, props.whole, props.loading, list])
  const toggle = useCallback(
    (id: string) => {
      const next = new Set(selected)
      if (!next.delete(id)) next.add(id)
      select(next)
    },
    [selected, select],
  )
  useRowKeys(rows, at, setAt, virtual, toggle, selected.size === 0)
  return (
    <div className="run-table">
      {props.fresh > 0 && (
        <button
          type="button"
          className="fresh"
          onClick={() => {
            box.current?.scrollTo({ top: 0 })
            list.showFresh()
          }}
        >
          {t('runs.fresh', { n: `${number(props.fresh)}${props.freshMore ? '+' : ''}` })}
        </button>
      )}
      <div
        className="the-table"
        role="table"
        aria-label={t('runs.title')}
        aria-rowcount={props.whole ? rows.length + 1 : -1}
      >
        <Head rows={rows} sort={props.sort} selected={selected} select={select} />
        <div
          className="rows"
          ref={box}
          role="rowgroup"
          tabIndex={0}
          aria-label={t('runs.title')}
          onScroll={({ currentTarget: { scrollTop } }) => list.atTop(scrollTop < ROW / 2, scrollTop)}
        >
          <div className="rows-all" style={{ height: virtual.getTotalSize() }}>
            {items.map((item) => {
              const run = rows[item.index]
              return run ? (
                <Row
                  key={run.run_id}
                  run={run}
                  why={reasonOf(run, workers)}
                  index={item.index}
                  top={item.start}
                  height={item.size}
                  here={item.index === at}
                  checked={selected.has(run.run_id)}
                  toggle={toggle}
                />
              ) : null
            })}
          </div>
        </div>
      </div>
      <p className="rows-end" role="status">
        {list.shown.error
          ? null
          : props.loading
            ? t('loading')
            : props.whole
              ? t('runs.end', { n: number(rows.length) })
              : t('runs.loaded', { n: number(rows.length) })}
      </p>
    </div>
  )
}

function Head({
  rows,
  sort,
  selected,
  select,
}: {
  rows: RunSummary[]
  sort: string
  selected: ReadonlySet<string>
  select: (next: ReadonlySet<string>) => void
}): JSX.Element {
  const all = rows.length > 0 && selected.size >= rows.length
  return (
    <div role="rowgroup">
      <div className="row head" role="row" aria-rowindex={1}>
        <span role="columnheader">
          <input
            type="checkbox"
            aria-label={t('runs.selectAll')}
            checked={all}
            onChange={() => select(all ? new Set() : new Set(rows.map((run) => run.run_id)))}
          />
        </span>
        <span role="columnheader">{t('runs.status')}</span>
        <span role="columnheader">{t('runs.flow')}</span>
        <span role="columnheader">{t('runs.id')}</span>
        <span role="columnheader">{t('runs.tag')}</span>
        <span role="columnheader">{t('runs.worker')}</span>
        <Sorted column="submitted" sort={sort} label={t('runs.started')} />
        <Sorted column="duration" sort={sort} label={t('runs.duration')} />
      </div>
    </div>
  )
}

function Sorted({ column, sort, label }: { column: Column; sort: string; label: string }): JSX.Element {
  const is = sort === column ? 'ascending' : sort === `-${column}` ? 'descending' : 'none'
  return (
    <span role="columnheader" aria-sort={is} className={column === 'duration' ? 'right' : undefined}>
      <button type="button" className="plain" onClick={() => rewrite({ sort: turned(sort, column) })}>
        {label}
        <svg className="sort-mark" viewBox="0 0 8 10" aria-hidden="true">
          {is !== 'ascending' && <path d="M1 6h6L4 9.5z" />}
          {is !== 'descending' && <path d="M1 4h6L4 .5z" />}
        </svg>
      </button>
    </span>
  )
}

type RowProps = {
  run: RunSummary
  /** Why it makes no progress; empty if it does. */
  why: string
  index: number
  top: number
  height: number
  here: boolean
  checked: boolean
  toggle: (id: string) => void
}

const Row = memo(function Row({ run, why, index, top, height, here, checked, toggle }: RowProps): JSX.Element {
  const tags = run.tags.length ? run.tags : [run.tag]
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the link in the row is for the keyboard; this only makes it larger
    <div
      className={`row${here ? ' here' : ''}${checked ? ' checked' : ''}`}
      role="row"
      aria-rowindex={index + 2}
      style={{ transform: `translateY(${top}px)`, height }}
      onClick={(event) => opens(event) && go(`/runs/${part(run.run_id)}`)}
    >
      <span role="cell">
        <input
          type="checkbox"
          checked={checked}
          onChange={() => toggle(run.run_id)}
          aria-label={t('runs.select', { id: short(run.run_id) })}
        />
      </span>
      <span role="cell">
        <Status status={standing(run)} />
      </span>
      <span role="cell" className="flow-cell">
        <a href={`#/runs/${part(run.run_id)}`} title={run.flow_name}>
          {run.flow_name}
        </a>
        <ToFlow name={run.flow_name} />
        {run.retry_of && (
          <span className="mark" title={t('runs.retryOf', { id: short(run.retry_of) })}>
            {t('runs.retry')}
          </span>
        )}
        {run.error && (
          <span className="row-error" title={run.error}>
            {run.error}
          </span>
        )}
        {why && (
          <span className="row-why" title={why}>
            {why}
          </span>
        )}
      </span>
      <span role="cell" className="mono id-cell" title={run.run_id}>
        {short(run.run_id)}
      </span>
      <span role="cell" className="tags-cell">
        {tags.map((tag) => (
          <span key={tag} className="tag" title={tag}>
            {tag}
          </span>
        ))}
      </span>
      <span role="cell" className="worker-cell" title={run.worker_id ?? ''}>
        {run.worker_id ?? '–'}
      </span>
      <span role="cell" className="ago-cell">
        <Ago at={run.submitted_at} />
      </span>
      <span role="cell" className="right span-cell">
        <Span from={run.start_time} to={run.end_time} />
      </span>
    </div>
  )
})

/** The page of the flow. By keyboard it is reached from the run, so that a row has one link to step through. */
function ToFlow({ name }: { name: string }): JSX.Element {
  const words = t('flow.open', { flow: name })
  return (
    <a className="to-flow" href={`#/flows/${part(name)}`} tabIndex={-1} title={words} aria-label={words}>
      <Icon name="flows" />
    </a>
  )
}

/** A click on the row itself, not on a part with an own action, and not the end of marking text. */
function opens(event: React.MouseEvent): boolean {
  const target = event.target as HTMLElement
  return !target.closest('a, input, button, label') && !String(getSelection())
}

function useRowKeys(
  rows: RunSummary[],
  at: number,
  setAt: (next: number) => void,
  virtual: { scrollToIndex: (index: number) => void },
  toggle: (id: string) => void,
  cancelsRow: boolean,
): void {
  const keys = useMemo((): Keys => {
    const move = (by: number) => {
      const next = Math.max(0, Math.min(rows.length - 1, at + by))
      setAt(next)
      virtual.scrollToIndex(next)
    }
    const run = rows[at]
    return {
      j: () => move(1),
      k: () => move(-1),
      ArrowDown: () => move(1),
      ArrowUp: () => move(-1),
      ...(run ? { Enter: () => go(`/runs/${part(run.run_id)}`), x: () => toggle(run.run_id) } : {}),
      // With a selection `c` is meant for that.
      ...(run && cancelsRow ? { c: () => go(`/runs/${part(run.run_id)}?cancel=1`) } : {}),
    }
  }, [rows, at, setAt, virtual, toggle, cancelsRow])
  useKeys(keys)
}
