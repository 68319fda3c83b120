// The runs of a window: those that changed in it and those that have not ended, read once, then kept by the stream.
import { useDeferredValue, useEffect, useMemo, useSyncExternalStore } from 'react'
import { ask, repeatMs } from '../../../api/client'
import type { Page, RunSummary } from '../../../api/types'
import { Cell } from '../../../live/cell'
import { onNews } from '../../../live/news'
import { now } from '../../../live/now'
import { type Asked, asked, type Filters, fits } from '../filters'

export const RUNS_MAX = 1000
const PAGE = 200
const PAGES_MAX = 10
const ACTIVE = ['PENDING', 'RUNNING', 'CANCELLING']

export type Shown = { runs: Map<string, RunSummary>; cut: boolean; loading: boolean; error: unknown }

export function useTimeline(filters: Filters, seconds: number): Shown & { again: () => void } {
  const key = JSON.stringify([filters, seconds])
  const reading = useMemo(() => {
    const [of, span] = JSON.parse(key) as [Filters, number]
    return new Timeline(of, span)
  }, [key])
  useEffect(() => reading.start(), [reading])
  // Drawn in small steps: a thousand bars at once would block the page.
  const shown = useDeferredValue(useSyncExternalStore(reading.shown.subscribe, reading.shown.get))
  return { ...shown, again: reading.again }
}

export class Timeline {
  readonly shown = new Cell<Shown>({ runs: new Map(), cut: false, loading: true, error: null })
  private abort = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(
    private readonly filters: Filters,
    private readonly seconds: number,
  ) {}

  start(): () => void {
    this.abort = new AbortController()
    const stop = onNews((news) => {
      if (news === 'reset') void this.read()
      else this.change(news.changed, news.gone)
    })
    void this.read()
    return () => {
      stop()
      clearTimeout(this.timer)
      this.abort.abort()
    }
  }

  again = (): void => {
    void this.read()
  }

  private change(changed: RunSummary[], gone: string[]): void {
    const runs = new Map(this.shown.get().runs)
    for (const id of gone) runs.delete(id)
    for (const run of changed) {
      runs.delete(run.run_id)
      if (fits(run, this.filters, now())) runs.set(run.run_id, run)
    }
    this.show(runs)
  }

  /** The oldest are let go: what ended before the window, and what is too much. */
  private show(runs: Map<string, RunSummary>, more: Partial<Shown> = {}): void {
    const from = now() - this.seconds
    for (const [id, run] of runs) if (run.end_time !== null && run.end_time < from) runs.delete(id)
    const surplus = runs.size - RUNS_MAX
    if (surplus > 0) {
      const oldest = [...runs.values()].sort((a, b) => a.submitted_at - b.submitted_at).slice(0, surplus)
      for (const run of oldest) runs.delete(run.run_id)
    }
    this.shown.set({ ...this.shown.get(), runs, ...more, ...(surplus > 0 ? { cut: true } : {}) })
  }

  private async read(): Promise<void> {
    clearTimeout(this.timer)
    const { signal } = this.abort
    try {
      const window = { ...this.filters, since: '', submitted: '', from: '', to: '', sort: '' }
      const words = asked(window, now())
      const changed = await this.pages({ ...words, updated_after: now() - this.seconds }, signal)
      const active = window.status
        ? { runs: [], cut: false }
        : await this.pages({ ...words, status: ACTIVE }, signal, 1)
      if (signal.aborted) return
      const runs = new Map([...active.runs, ...changed.runs].map((run) => [run.run_id, run]))
      this.show(runs, { cut: changed.cut, loading: false, error: null })
    } catch (error) {
      if ((error as Error).name === 'AbortError' || signal.aborted) return
      this.shown.set({ ...this.shown.get(), loading: false, error })
      const wait = repeatMs(error)
      if (wait !== null) this.timer = setTimeout(() => void this.read(), wait)
    }
  }

  private async pages(
    words: Asked,
    signal: AbortSignal,
    most = PAGES_MAX,
  ): Promise<{ runs: RunSummary[]; cut: boolean }> {
    const runs: RunSummary[] = []
    let cursor: string | null = ''
    for (let count = 0; count < most && cursor !== null && runs.length < RUNS_MAX; count += 1) {
      const page: Page = await pageOf(words, cursor, signal)
      runs.push(...page.items)
      cursor = page.next_cursor
    }
    return { runs, cut: cursor !== null }
  }
}

async function pageOf(words: Asked, cursor: string, signal: AbortSignal): Promise<Page> {
  const query = new URLSearchParams({ limit: String(PAGE), cursor })
  for (const [name, value] of Object.entries(words)) {
    for (const one of [value ?? []].flat()) query.append(name, String(one))
  }
  return (await (await ask(`/runs?${query.toString()}`, { signal })).json()) as Page
}
