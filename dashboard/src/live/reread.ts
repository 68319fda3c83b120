// Lists that are read whole, and again when the gateway says that they have changed.
import { type Query, type QueryClient, type QueryKey, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { RunSummary } from '../api/types'
import { type List, onAnyChanged, onChanged, onNews } from './news'

/** Reads that follow the first read of a query, once it has ended. */
const next = new WeakMap<Query, Promise<void>>()

/** Something has changed: a read that began before does not count. */
export async function reread(queries: QueryClient, queryKey: QueryKey): Promise<void> {
  const first = queries.getQueryCache().findAll({ queryKey, predicate: isFirstRead })
  await Promise.all([queries.invalidateQueries({ queryKey }), ...first.map((query) => readNext(queries, query))])
}

/** While it is under way, a request to read again only gets its answer. Later reads are given up for a new one. */
const isFirstRead = ({ state }: Query) => state.data === undefined && state.fetchStatus !== 'idle'

function readNext(queries: QueryClient, query: Query): Promise<void> {
  const known = next.get(query)
  if (known) return known
  const { queryKey } = query
  const reading = Promise.allSettled([query.promise]).then(() => {
    next.delete(query)
    return queries.invalidateQueries({ queryKey, exact: true })
  })
  next.set(query, reading)
  return reading
}

/** What no page shows when something changes: it is read again when a page shows it, however soon that is. */
export function startForgetting(queries: QueryClient): void {
  const forget = () => void forgetUnseen(queries)
  onNews(forget)
  onAnyChanged(forget)
}

export async function forgetUnseen(queries: QueryClient): Promise<void> {
  // A read that began before the change would count as new when it ends.
  await queries.cancelQueries({ type: 'inactive' })
  await queries.invalidateQueries({ type: 'inactive', refetchType: 'none' })
}

export function useReread(list: List, queryKey: QueryKey): void {
  const queries = useQueryClient()
  const key = JSON.stringify(queryKey)
  useEffect(() => onChanged(list, () => void reread(queries, JSON.parse(key) as QueryKey)), [list, key, queries])
}

/** After a run of which this holds has changed; at once, and then not more often than this. */
export function useOnRuns(concerns: (run: RunSummary) => boolean, pauseMs: number, act: () => void): void {
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = onNews((news) => {
      if (news !== 'reset' && !news.changed.some(concerns)) return
      timer ??= setTimeout(() => {
        timer = undefined
        act()
      }, pauseMs)
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [concerns, pauseMs, act])
}
