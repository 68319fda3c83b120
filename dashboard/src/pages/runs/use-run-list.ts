// A list of runs for the page: read in pages as the reader goes down, patched by the one stream.
import { useCallback, useEffect, useMemo, useRef, useState, useSyncExternalStore } from 'react'
import { forgetFailures, get, repeatMs } from '../../api/client'
import type { Page } from '../../api/types'
import { Cell } from '../../live/cell'
import { onNews } from '../../live/news'
import { now } from '../../live/now'
import { entryId } from '../../live/place'
import { type Asked, asked, type Filters, fits, orderOf } from './filters'
import { comparing } from './order'
import { RunList } from './run-list'

const PAGE = 100
const PAGE_LATER = 200

export type Shown = {
  rows: RunList['rows']
  fresh: number
  /** Whether more than that came. */
  freshMore: boolean
  /** Whether everything that matches is loaded. */
  whole: boolean
  loading: boolean
  error: unknown
}

export type RunListView = {
  shown: Shown
  more: () => void
  again: () => void
  atTop: (is: boolean, px: number) => void
  showFresh: () => void
  /** How far down the reader was who comes back. */
  px: number
}

const LEFT_MS = 5 * 60_000

/** The list that was left last goes on for a while: who comes back finds it, and the place in it, as it was. */
let left: { entry: number; key: string; reading: Reading; stop: () => void } | null = null

function comeBack(entry: number, key: string): Reading | null {
  return left?.entry === entry && left.key === key ? left.reading : null
}

function begin(reading: Reading): () => void {
  if (left?.reading !== reading) return reading.start()
  const { stop } = left
  left = null
  return stop
}

function leave(entry: number, key: string, reading: Reading, stop: () => void): void {
  if (reading.px === 0 || reading.shown.get().error !== null) {
    stop()
    return
  }
  left?.stop()
  const mine = { entry, key, reading, stop }
  left = mine
  setTimeout(() => {
    if (left !== mine) return
    left = null
    stop()
  }, LEFT_MS)
}

export function useRunList(filters: Filters): RunListView {
  const key = JSON.stringify(filters)
  const [entry] = useState(entryId)
  const reading = useMemo(() => comeBack(entry, key) ?? new Reading(JSON.parse(key) as Filters), [entry, key])
  useEffect(() => {
    const stop = begin(reading)
    return () => leave(entry, key, reading, stop)
  }, [entry, key, reading])
  const shown = useSyncExternalStore(reading.shown.subscribe, reading.shown.get)
  const latest = useRef(reading)
  latest.current = reading
  return {
    shown,
    more: useCallback(() => latest.current.more(), []),
    again: useCallback(() => latest.current.again(), []),
    atTop: useCallback((is: boolean, px: number) => latest.current.setAtTop(is, px), []),
    showFresh: useCallback(() => latest.current.showFresh(), []),
    px: reading.px,
  }
}

/** Of one set of filters. */
export class Reading {
  readonly shown = new Cell<Shown>({ rows: [], fresh: 0, freshMore: false, whole: false, loading: true, error: null })
  private list: RunList
  private cursor: string | null = ''
  private loading = false
  /** Of the last answer; until there is a good one. */
  private error: unknown = null
  private timer: ReturnType<typeof setTimeout> | undefined
  private isAtTop = true
  px = 0
  private abort = new AbortController()
  private words: Asked

  constructor(private readonly filters: Filters) {
    this.list = new RunList(comparing(orderOf(filters)))
    this.words = asked(filters, now())
  }

  start(): () => void {
    this.abort = new AbortController()
    const unsubscribe = onNews((news) => {
      if (news === 'reset') this.anew()
      else {
        const isWhole = this.cursor === null
        this.list.change(news.changed, news.gone, (run) => fits(run, this.filters, now()), this.isAtTop, isWhole)
        if (this.isAtTop && this.list.trim()) this.readFromTheTop()
        this.show()
      }
    })
    if (this.list.rows.length === 0) void this.read()
    return () => {
      unsubscribe()
      this.abort.abort()
      clearTimeout(this.timer)
      this.loading = false
    }
  }

  /** The reader nears the end. What failed is not asked for by scrolling. */
  more(): void {
    if (this.error === null) void this.read()
  }

  again(): void {
    forgetFailures()
    void this.read()
  }

  private async read(): Promise<void> {
    if (this.loading || this.cursor === null) return
    clearTimeout(this.timer)
    this.loading = true
    this.show()
    try {
      const { words } = this
      this.list.expectPage()
      const limit = this.cursor === '' ? PAGE : PAGE_LATER
      const page = await get<Page>(this.address(limit), undefined, this.abort.signal)
      if (words !== this.words) {
        this.loading = false
        return this.read() // started again meanwhile: this page is of the list as it was
      }
      this.cursor = page.next_cursor
      this.list.append(page.items)
      this.loading = false
      this.error = null
      this.show()
    } catch (error) {
      this.loading = false
      if ((error as Error).name !== 'AbortError') this.failed(error)
    }
  }

  private failed(error: unknown): void {
    this.error = error
    this.show()
    const wait = repeatMs(error)
    if (wait !== null) this.timer = setTimeout(() => void this.read(), wait)
  }

  /** A cursor is good for the same words only, so `now` is that of the first page. An empty one asks for pages. */
  private address(limit: number): string {
    const words = new URLSearchParams({ limit: String(limit), cursor: this.cursor ?? '' })
    for (const [name, value] of Object.entries(this.words)) {
      for (const one of [value ?? []].flat()) words.append(name, String(one))
    }
    return `/runs?${words.toString()}`
  }

  setAtTop(is: boolean, px = 0): void {
    this.isAtTop = is
    this.px = px
    if (is && this.list.fresh.size) this.showFresh()
  }

  showFresh(): void {
    if (this.list.overrun) this.anew()
    else {
      this.list.showFresh(this.cursor === null)
      this.show()
    }
  }

  /** Pages are asked for from the first on, and what is known already is passed over. */
  private readFromTheTop(): void {
    this.cursor = ''
    this.words = asked(this.filters, now())
  }

  private anew(): void {
    this.list = new RunList(comparing(orderOf(this.filters)))
    this.readFromTheTop()
    void this.read()
  }

  private show(): void {
    this.shown.set({
      rows: this.list.rows,
      fresh: this.list.fresh.size,
      freshMore: this.list.overrun,
      whole: this.cursor === null,
      loading: this.loading,
      error: this.error,
    })
  }
}
