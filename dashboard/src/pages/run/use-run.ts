// One run as it changes: its snapshot by a stream, its events read on whenever it has changed.
import { useEffect, useState } from 'react'
import { type ApiError, get, part } from '../../api/client'
import type { EventsPage, ExecutionEvent } from '../../api/executions'
import { follow } from '../../api/stream'
import { type Run, TERMINAL } from '../../api/types'
import { Cell, useCell } from '../../live/cell'
import { onNews } from '../../live/news'

const EVENTS_AT_ONCE = 2000
const READ_PAUSE_MS = 200

export type Watched = { run: Run | null; events: ExecutionEvent[]; error: ApiError | null; hasEvents: boolean }

export function useRun(id: string): Watched {
  const [watching] = useState(() => new Watching(id))
  useEffect(() => watching.start(), [watching])
  return useCell(watching.shown)
}

class Watching {
  readonly shown = new Cell<Watched>({ run: null, events: [], error: null, hasEvents: true })
  private reading = false
  private again = false
  private stopped = false

  constructor(private readonly id: string) {}

  start(): () => void {
    this.stopped = false
    const stop = follow({
      path: `/runs/${part(this.id)}/watch`,
      query: { include: 'records', timeout_sec: 600 },
      onEvent: ({ event, data }) => {
        if (event !== 'snapshot') return
        this.change({ run: (JSON.parse(data) as { snapshot: Run }).snapshot, error: null })
        void this.readEvents()
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
    return () => {
      this.stopped = true
      unsubscribe()
      stop()
    }
  }

  /** What came after what we have; one question at a time. */
  private async readEvents(): Promise<void> {
    if (this.reading) {
      this.again = true
      return
    }
    this.reading = true
    try {
      let hasMore = true
      while (hasMore && !this.stopped) {
        const { events } = this.shown.get()
        const afterSeq = events.at(-1)?.seq ?? 0
        const page = await get<EventsPage>(`/executions/${part(this.id)}/events`, { afterSeq, limit: EVENTS_AT_ONCE })
        if (page.events.length) this.change({ events: events.concat(page.events) })
        hasMore = page.hasMore
      }
    } catch {
      if (this.shown.get().events.length === 0) this.change({ hasEvents: false })
    }
    this.reading = false
    if (this.again && !this.stopped) {
      this.again = false
      setTimeout(() => void this.readEvents(), READ_PAUSE_MS)
    }
  }

  private change(some: Partial<Watched>): void {
    this.shown.set({ ...this.shown.get(), ...some })
  }
}
