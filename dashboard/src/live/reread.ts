// Lists that are read whole, and again when the gateway says that they have changed.
import { type QueryKey, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import type { RunSummary } from '../api/types'
import { type List, onChanged, onNews } from './news'

export function useReread(list: List, queryKey: QueryKey): void {
  const queries = useQueryClient()
  const key = JSON.stringify(queryKey)
  useEffect(
    () => onChanged(list, () => void queries.invalidateQueries({ queryKey: JSON.parse(key) as QueryKey })),
    [list, key, queries],
  )
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
