// What the whole dashboard lives from: runs as they change, their sums, which lists have changed, whether all is well.
import type { ApiError } from '../api/client'
import { follow, type StreamState } from '../api/stream'
import type { Counts, Minute, RunSummary, RunsNews, Standing } from '../api/types'
import { Cell } from './cell'

export type Connection = { state: StreamState; error: ApiError | null }

export const connection = new Cell<Connection>({ state: 'connecting', error: null })
export const standing = new Cell<Standing>({ ready: true, reasons: [] })
export const counts = new Cell<Counts | null>(null)
/** So many of the running ones wait for an answer or an instant. */
export const waiting = new Cell<number>(0)
export const minute = new Cell<Minute | null>(null)
/** How far the clock of the gateway is ahead of ours, in seconds. */
export const clockAhead = new Cell<number>(0)

export type News = { changed: RunSummary[]; gone: string[] }
type Listener = (news: News | 'reset') => void
const listeners = new Set<Listener>()

/** What has changed, as it comes; `reset` when everything known should be read again. */
export function onNews(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export type List = 'approvals' | 'dead_letters' | 'schedules' | 'strategies' | 'wheels'
const rereaders = new Map<List, Set<() => void>>()

/** Another list than that of runs has changed, and should be read again. */
export function onChanged(list: List, reread: () => void): () => void {
  const readers = rereaders.get(list) ?? new Set()
  rereaders.set(list, readers.add(reread))
  return () => readers.delete(reread)
}

const watchers = new Set<() => void>()

/** One of the other lists has changed. */
export function onAnyChanged(watcher: () => void): void {
  watchers.add(watcher)
}

let lost = false

export function startNews(): void {
  follow({
    topic: 'runs',
    onEvent: (event, data) => take(event, data as RunsNews),
    onState: (state, error) => {
      if (state === 'lost') lost = true
      if (state === 'open' && lost) {
        lost = false
        standing.set({ ready: true, reasons: [] })
      }
      connection.set({ state, error })
    },
    onAnew: () => tell('reset'),
  })
  follow({
    topic: 'lists',
    onEvent: (_, data) => {
      for (const watcher of watchers) watcher()
      for (const list of (data as { changed: List[] }).changed) {
        for (const reread of rereaders.get(list) ?? []) reread()
      }
    },
    onAnew: () => {
      for (const watcher of watchers) watcher()
      for (const readers of rereaders.values()) for (const reread of readers) reread()
    },
  })
}

function take(event: string, news: RunsNews): void {
  counts.set(news.counts)
  waiting.set(news.waiting ?? 0)
  minute.set(news.minute)
  clockAhead.set(news.ts - Date.now() / 1000)
  if (news.standing) standing.set(news.standing)
  if (event === 'reset') tell('reset')
  else if (news.runs.length || news.gone.length) tell({ changed: news.runs, gone: news.gone })
}

function tell(news: News | 'reset'): void {
  for (const listener of listeners) listener(news)
}
