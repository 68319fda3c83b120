// Dead letters as lists read them: what could not be delivered or started. One query for the page and for the badge.
import { type InfiniteData, type UseInfiniteQueryResult, useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { get } from '../../api/client'
import type { Letter } from '../../api/types'
import { useCell } from '../../live/cell'
import { connection, onChanged } from '../../live/news'
import { reread } from '../../live/reread'

export type Letters = { items: Letter[]; next_cursor: string | null }

const PAGE = 100
/** Letters of failed runs change the same stream: a burst of them must not cost a read each. */
const REREAD_MS = 2000

export function useLetters(dismissed: boolean): UseInfiniteQueryResult<InfiniteData<Letters>> {
  const { state } = useCell(connection)
  const more = dismissed ? { include_dismissed: true } : {}
  return useInfiniteQuery({
    queryKey: ['dlq', dismissed],
    queryFn: ({ pageParam }) => get<Letters>('/dlq', { kind: 'delivery', limit: PAGE, cursor: pageParam, ...more }),
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor,
    enabled: state === 'open',
  })
}

export function itemsOf(pages: InfiniteData<Letters> | undefined): Letter[] {
  return pages?.pages.flatMap((page) => page.items) ?? []
}

/** It was neither redriven nor dismissed. */
export function isOpen(letter: Letter): boolean {
  return !letter.redriven_as && !letter.dismissed
}

/** For the one part that is always there: how many need attention, kept up to date for all. */
export function useOpenCount(): { n: number; more: boolean } {
  const queries = useQueryClient()
  const letters = useLetters(false)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let readAt = 0
    const read = () => {
      timer = undefined
      readAt = performance.now()
      void reread(queries, ['dlq'])
    }
    const stop = onChanged('dead_letters', () => {
      timer ??= setTimeout(read, Math.max(0, readAt + REREAD_MS - performance.now()))
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [queries])
  return { n: itemsOf(letters.data).filter(isOpen).length, more: letters.hasNextPage }
}
