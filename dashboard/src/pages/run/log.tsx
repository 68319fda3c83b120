// What a run printed: from the first line on, and live; searched on the server, linked to by line.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type JSX, memo, useEffect, useLayoutEffect, useMemo, useRef, useState } from 'react'
import { ask, forgetFailures, part } from '../../api/client'
import { useCell } from '../../live/cell'
import { rewrite, usePlace } from '../../live/place'
import { say } from '../../parts/toast'
import { sentence, Wrong } from '../../parts/wrong'
import { clock, number, short } from '../../text/format'
import { t } from '../../text/text'
import { Ansi } from './ansi'
import { type Line, LogLines } from './log-lines'
import { searchLog } from './log-search'

const ROW = 19
const NEAR_END_PX = ROW * 2

type LogProps = {
  id: string
  tasks: string[]
  over: boolean
  at: number | null
  task: string | null
  select: (task: string | null) => void
}

export function Log({ id, tasks, over, at, task, select }: LogProps): JSX.Element {
  const [log, setLog] = useState(() => new LogLines(id))
  useEffect(() => log.start(), [log])
  const shown = useCell(log.shown)
  const { query } = usePlace()
  const [following, setFollowing] = useState(query.get('line') === null)
  const count = shown.lines.length
  // The array is one and the same, and as long as before when its beginning is let go: what is new is `shown`.
  const lines = useMemo(() => (task ? shown.lines.filter((line) => line.task === task) : shown.lines), [shown, task])
  const wanted = Number(query.get('line') ?? 0)
  return (
    <div className="log">
      <div className="log-bar">
        <Search
          id={id}
          goTo={(seq) => {
            setFollowing(false)
            rewrite({ line: String(seq), task: null })
          }}
        />
        <select aria-label={t('log.task')} value={task ?? ''} onChange={(event) => select(event.target.value || null)}>
          <option value="">{t('log.allTasks')}</option>
          {tasks.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <button
          type="button"
          className="small"
          aria-pressed={following}
          disabled={shown.over && following}
          onClick={() => {
            setFollowing(!following)
            if (!following) rewrite({ line: null })
          }}
        >
          {following && !shown.over ? t('log.following') : t('log.follow')}
        </button>
        <button type="button" className="small" onClick={() => void download(id)}>
          {t('log.download')}
        </button>
        <span className="faint-text log-count" role="status">
          {t('log.lines', { n: number(shown.dropped + count) })}
        </span>
      </div>
      {shown.error ? (
        <Wrong
          error={shown.error}
          again={() => {
            forgetFailures()
            setLog(new LogLines(id))
          }}
        />
      ) : null}
      {shown.cut && <p className="faint-text">{t('log.cut')}</p>}
      {shown.dropped > 0 && <p className="faint-text">{t('log.earlier', { n: number(shown.dropped) })}</p>}
      {count === 0 && !shown.loading ? (
        <p className="faint-text log-none">{over ? t('log.none') : t('log.empty')}</p>
      ) : (
        <Rows
          lines={lines}
          count={lines.length}
          following={following}
          setFollowing={setFollowing}
          wanted={wanted}
          at={at}
        />
      )}
    </div>
  )
}

type RowsProps = {
  lines: Line[]
  count: number
  following: boolean
  setFollowing: (is: boolean) => void
  wanted: number
  at: number | null
}

function Rows({ lines, count, following, setFollowing, wanted, at }: RowsProps): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({ count, getScrollElement: () => box.current, estimateSize: () => ROW, overscan: 20 })
  useLayoutEffect(() => {
    if (following && at === null && count > 0) virtual.scrollToIndex(count - 1, { align: 'end' })
  }, [following, count, at, virtual])
  const index = wanted ? indexOf(lines, (line) => line.seq >= wanted) : -1
  const found = index >= 0 && index < count
  useEffect(() => {
    if (found) virtual.scrollToIndex(index, { align: 'center' })
  }, [found, index, virtual])
  useEffect(() => {
    if (at !== null && count > 0)
      virtual.scrollToIndex(Math.max(0, indexOf(lines, (line) => Date.parse(line.timestamp) / 1000 > at) - 1), {
        align: 'center',
      })
  }, [at, count, lines, virtual])
  return (
    <div
      className="log-lines"
      ref={box}
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label={t('log.label')}
      onWheel={(event) => event.deltaY < 0 && setFollowing(false)}
      onScroll={(event) => {
        const { scrollTop, scrollHeight, clientHeight } = event.currentTarget
        if (!following && at === null && !wanted && scrollHeight - scrollTop - clientHeight < NEAR_END_PX)
          setFollowing(true)
      }}
    >
      <div className="rows-all" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const line = lines[item.index]
          return line ? (
            <Row
              key={line.seq}
              line={line}
              top={item.start}
              chosen={line.seq === wanted}
              later={at !== null && Date.parse(line.timestamp) / 1000 > at}
            />
          ) : null
        })}
      </div>
    </div>
  )
}

const Row = memo(function Row({
  line,
  top,
  chosen,
  later,
}: {
  line: Line
  top: number
  chosen: boolean
  later: boolean
}): JSX.Element {
  return (
    <div
      className={`line${chosen ? ' chosen' : ''}${later ? ' later' : ''}${line.stream === 'stderr' ? ' stderr' : ''}`}
      style={{ transform: `translateY(${top}px)` }}
    >
      <button
        type="button"
        className="line-number"
        aria-label={t('log.permalink', { n: line.seq })}
        onClick={() => rewrite({ line: String(line.seq) })}
      >
        {line.seq}
      </button>
      <span className="line-time">{clock(Date.parse(line.timestamp) / 1000)}</span>
      <span className="line-task" title={line.task ?? ''}>
        {line.task ?? ''}
      </span>
      <span className="line-text">
        <Ansi text={line.message} />
      </span>
    </div>
  )
})

function Search({ id, goTo }: { id: string; goTo: (seq: number) => void }): JSX.Element {
  const [text, setText] = useState('')
  const [hits, setHits] = useState<number[] | null>(null)
  const [at, setAt] = useState(0)
  const [progress, setProgress] = useState<{ n: number; all: number } | null>(null)
  const searching = useRef<AbortController | null>(null)
  const stop = () => {
    searching.current?.abort()
    setProgress(null)
  }
  useEffect(() => () => searching.current?.abort(), [])
  const search = async () => {
    stop()
    if (text === '') return setHits(null)
    searching.current = new AbortController()
    const { signal } = searching.current
    let went = false
    const show = (found: number[]) => {
      setHits(found)
      if (!went && found[0] !== undefined) {
        went = true
        setAt(0)
        goTo(found[0])
      }
    }
    try {
      const found = await searchLog(id, text, signal, (soFar, n, all) => {
        if (soFar.length) show(soFar)
        setProgress({ n, all })
      })
      setProgress(null)
      show(found)
    } catch (error) {
      if (signal.aborted) return
      setProgress(null)
      say(sentence(error), true)
    }
  }
  const step = (by: number) => {
    if (!hits?.length) return
    const next = (at + by + hits.length) % hits.length
    setAt(next)
    goTo(hits[next] as number)
  }
  return (
    <form
      role="search"
      className="log-search"
      onSubmit={(event) => {
        event.preventDefault()
        if (hits?.length && hits !== null) step(1)
        else void search()
      }}
    >
      <input
        type="search"
        value={text}
        placeholder={t('log.search')}
        aria-label={t('log.search')}
        onChange={(event) => {
          stop()
          setText(event.target.value)
          setHits(null)
        }}
      />
      {progress !== null && (
        <span role="status" className="log-hits">
          {t('log.searched', { n: number(progress.n), all: number(progress.all) })}
        </span>
      )}
      {hits !== null && (
        <span role="status" className="log-hits">
          {hits.length ? t('log.hit', { i: at + 1, n: number(hits.length) }) : t('log.hits', { n: 0 })}
        </span>
      )}
      {hits !== null && hits.length > 1 && (
        <>
          <button type="button" className="small plain" aria-label={t('log.previous')} onClick={() => step(-1)}>
            ↑
          </button>
          <button type="button" className="small plain" aria-label={t('log.next')} onClick={() => step(1)}>
            ↓
          </button>
        </>
      )}
    </form>
  )
}

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

async function download(id: string): Promise<void> {
  try {
    const answer = await ask(`/runs/${part(id)}/logs`, { headers: { Accept: 'text/plain' } })
    const link = document.createElement('a')
    link.href = URL.createObjectURL(await answer.blob())
    link.download = `${short(id)}.log`
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
  } catch (error) {
    say(sentence(error), true)
  }
}
