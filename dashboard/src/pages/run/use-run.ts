// One run as it changes: its snapshot and its events, what there was read in pages and the rest as it comes.
import { useEffect, useState } from 'react'
import { type ApiError, forgetFailures, get, isRefusal, part } from '../../api/client'
import type { EventsPage, ExecutionEvent } from '../../api/executions'
import { follow } from '../../api/stream'
import { type Run, TERMINAL } from '../../api/types'
import { Cell, useCell } from '../../live/cell'
import { onNews } from '../../live/news'

const EVENTS_AT_ONCE = 2000

export type Watched = { run: Run | null; events: ExecutionEvent[]; error: ApiError | null; hasEvents: boolean }

export function useRun(id: string): Watched & { again: () => void } {
  const [watching, setWatching] = useState(() => new Watching(id))
  useEffect(() => watching.start(), [watching])
  const again = () => {
    forgetFailures()
    setWatching(new Watching(id))
  }
  return { ...useCell(watching.shown), again }
}

export class Watching {
  readonly shown = new Cell<Watched>({ run: null, events: [], error: null, hasEvents: true })
  private leave: (() => void) | undefined

  constructor(private readonly id: string) {}

  start(): () => void {
    const abort = new AbortController()
    const stop = follow({
      topic: `run:${this.id}`,
      onEvent: (event, data) => {
        if (event === 'snapshot') this.change({ run: (data as { snapshot: Run }).snapshot, error: null })
      },
      onState: (state, error) => {
        if (state === 'refused') this.change({ error })
      },
    })
    // Of a run that is over nothing more is streamed, but its tags can still be changed.
    const unsubscribe = onNews((news) => {
      const changed = news === 'reset' ? undefined : news.changed.find((run) => run.run_id === this.id)
      const { run } = this.shown.get()
      if (changed && run && TERMINAL.has(run.status)) this.change({ run: { ...run, tags: changed.tags } })
    })
    void this.readEvents(abort.signal)
    return () => {
      abort.abort()
      unsubscribe()
      stop()
      this.leave?.()
    }
  }

  private async readEvents(signal: AbortSignal): Promise<void> {
    try {
      let hasMore = true
      while (hasMore) {
        const { events } = this.shown.get()
        const afterSeq = events.at(-1)?.seq ?? 0
        const page = await get<EventsPage>(
          `/executions/${part(this.id)}/events`,
          { afterSeq, limit: EVENTS_AT_ONCE },
          signal,
        )
        if (signal.aborted) return
        if (page.events.length) this.change({ events: events.concat(page.events) })
        hasMore = page.hasMore
      }
    } catch (error) {
      if (signal.aborted) return
      // What could not be answered comes with the rest; what was refused does not.
      if (isRefusal(error)) return this.change({ hasEvents: false })
    }
    this.followEvents()
  }

  private followEvents(): void {
    const last = this.shown.get().events.at(-1)?.seq
    this.leave = follow({
      topic: `events:${this.id}`,
      after: last === undefined ? undefined : String(last),
      onEvent: (event, data) => {
        // The broker has lost some: all there are now follow from the first.
        if (event === 'reset') this.change({ events: [] })
        else this.change({ events: this.shown.get().events.concat(data as ExecutionEvent) })
      },
      onAnew: () => this.change({ events: [] }),
    })
  }

  private change(some: Partial<Watched>): void {
    this.shown.set({ ...this.shown.get(), ...some })
  }
}
