// The lines of a log that are in view, as rows: measured where they wrap, of one height where they do not.
import { useVirtualizer } from '@tanstack/react-virtual'
import {
  type JSX,
  memo,
  type RefObject,
  useCallback,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
} from 'react'
import { type Keys, useKeys } from '../../../live/keys'
import { rewrite } from '../../../live/place'
import { clock } from '../../../text/format'
import { t } from '../../../text/text'
import { Ansi } from './ansi'
import type { Line } from './log-lines'
import { jsonIn, type LogView } from './log-view'

const ROW = 19
const NEAR_END_PX = ROW * 2

export type RowsProps = {
  lines: Line[]
  count: number
  following: boolean
  setFollowing: (is: boolean) => void
  wanted: number
  at: number | null
  view: LogView
  sought: string
}

export function Rows(props: RowsProps): JSX.Element {
  const { lines, count, wanted, at, view, sought } = props
  const box = useRef<HTMLDivElement>(null)
  const [expanded, setExpanded] = useState<ReadonlySet<number>>(new Set())
  const toggle = useCallback(
    (seq: number) =>
      setExpanded((before) => new Set(before.has(seq) ? [...before].filter((one) => one !== seq) : [...before, seq])),
    [],
  )
  const measured = view.wrap || expanded.size > 0
  const virtual = useVirtualizer({
    count,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    getItemKey: (index) => lines[index]?.seq ?? index,
    overscan: 20,
  })
  // biome-ignore lint/correctness/useExhaustiveDependencies: heights depend on what is shown of a line
  useLayoutEffect(() => virtual.measure(), [view, measured, virtual])
  useScrolling(props, virtual.scrollToIndex, virtual.getTotalSize())
  useChosenKeys(lines, wanted, box)
  return (
    <div
      className={`log-lines${view.wrap ? ' wrap' : ''}`}
      ref={box}
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label={t('log.label')}
      onWheel={(event) => event.deltaY < 0 && props.setFollowing(false)}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget
        const isNearEnd = scrollHeight - scrollTop - clientHeight < NEAR_END_PX
        if (!props.following && at === null && !wanted && isNearEnd) props.setFollowing(true)
      }}
    >
      <div className="rows-all" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const line = lines[item.index]
          return line ? (
            <Row
              key={line.seq}
              index={item.index}
              measure={measured ? virtual.measureElement : undefined}
              line={line}
              top={item.start}
              chosen={line.seq === wanted}
              later={at !== null && Date.parse(line.timestamp) / 1000 > at}
              view={view}
              sought={sought}
              expanded={expanded.has(line.seq)}
              toggle={toggle}
            />
          ) : null
        })}
      </div>
    </div>
  )
}

type ScrollTo = (index: number, options?: { align?: 'start' | 'center' | 'end' }) => void

/** Where it scrolls by itself: to the end while it follows, to the chosen line, to the moment of the time cursor. */
function useScrolling({ lines, count, following, wanted, at }: RowsProps, scrollTo: ScrollTo, height: number): void {
  const scroll = useRef(scrollTo)
  scroll.current = scrollTo
  // biome-ignore lint/correctness/useExhaustiveDependencies: lines that were measured move the end
  useLayoutEffect(() => {
    if (following && at === null && count > 0) scroll.current(count - 1, { align: 'end' })
  }, [following, count, at, height])
  const index = wanted ? indexOf(lines, (line) => line.seq >= wanted) : -1
  const found = index >= 0 && index < count
  useEffect(() => {
    if (found) scroll.current(index, { align: 'center' })
  }, [found, index])
  useEffect(() => {
    if (at === null || count === 0) return
    const next = indexOf(lines, (line) => Date.parse(line.timestamp) / 1000 > at)
    scroll.current(Math.max(0, next - 1), { align: 'center' })
  }, [at, count, lines])
}

/** `j` and `k` choose the next and the previous line. Only the buttons of the chosen line are tab stops. */
function useChosenKeys(lines: Line[], wanted: number, box: RefObject<HTMLDivElement | null>): void {
  useKeys(
    useMemo((): Keys => {
      const choose = (by: 1 | -1) => {
        const from = wanted ? indexOf(lines, (line) => line.seq >= wanted) : firstInView(lines, box.current) - by
        const line = lines[Math.min(lines.length - 1, Math.max(0, from + by))]
        if (line) rewrite({ line: String(line.seq) })
      }
      return { j: () => choose(1), k: () => choose(-1) }
    }, [lines, wanted, box]),
  )
}

function firstInView(lines: Line[], box: HTMLDivElement | null): number {
  const top = box?.getBoundingClientRect().top ?? 0
  const row = [...(box?.querySelectorAll<HTMLElement>('.line') ?? [])].find(
    (one) => one.getBoundingClientRect().top >= top,
  )
  return row ? Number(row.dataset.index) : lines.length - 1
}

type RowProps = {
  line: Line
  index: number
  measure: ((element: HTMLElement | null) => void) | undefined
  top: number
  chosen: boolean
  later: boolean
  view: LogView
  sought: string
  expanded: boolean
  toggle: (seq: number) => void
}

const Row = memo(function Row(props: RowProps): JSX.Element {
  const { line, chosen, later, view } = props
  const json = useMemo(() => jsonIn(line.message), [line])
  const level = line.level && line.level !== 'INFO' ? ` level-${line.level.toLowerCase()}` : ''
  const tabIndex = chosen ? 0 : -1
  return (
    <div
      ref={props.measure}
      data-index={props.index}
      className={`line${chosen ? ' chosen' : ''}${later ? ' later' : ''}${line.stream === 'stderr' ? ' stderr' : ''}${level}`}
      style={{ transform: `translateY(${props.top}px)` }}
    >
      <span className="line-gutter">
        <button
          type="button"
          className="line-number"
          tabIndex={tabIndex}
          aria-label={t('log.permalink', { n: line.seq })}
          onClick={() => rewrite({ line: String(line.seq) })}
        >
          {line.seq}
        </button>
        {view.time && <span className="line-time">{clock(Date.parse(line.timestamp) / 1000)}</span>}
        {view.task && (
          <span className="line-task" title={line.task ?? ''}>
            {line.task ?? ''}
          </span>
        )}
      </span>
      <span className="line-text">
        {json !== null && (
          <button
            type="button"
            className="line-expand"
            tabIndex={tabIndex}
            aria-expanded={props.expanded}
            aria-label={t('log.expand', { n: line.seq })}
            onClick={() => props.toggle(line.seq)}
          >
            {props.expanded ? '▾' : '▸'}
          </button>
        )}
        <Ansi text={line.message} sought={props.sought} />
        {props.expanded && json !== null && <pre className="line-json">{JSON.stringify(json, null, 2)}</pre>}
      </span>
    </div>
  )
})

/** The first index for which it holds, of lines in order; their number when it holds for none. */
export function indexOf(lines: Line[], holds: (line: Line) => boolean): number {
  let low = 0
  let high = lines.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (holds(lines[middle] as Line)) high = middle
    else low = middle + 1
  }
  return low
}
