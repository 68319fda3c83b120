// What waits for a person: read once, and again when something began to wait or was answered.
import { type InfiniteData, type UseInfiniteQueryResult, useInfiniteQuery } from '@tanstack/react-query'
import { get } from '../../api/client'
import type { Approval } from '../../api/executions'
import { useCell } from '../../live/cell'
import { connection } from '../../live/news'
import { useReread } from '../../live/reread'

export type Approvals = { items: Approval[]; next_cursor: string | null }

const LIMIT = 100

/** In pages, the longest waiting first. */
export function useApprovals(): UseInfiniteQueryResult<InfiniteData<Approvals>> {
  const { state } = useCell(connection)
  return useInfiniteQuery({
    queryKey: ['approvals'],
    queryFn: ({ pageParam }) => get<Approvals>('/approvals', { limit: LIMIT, cursor: pageParam }),
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor,
    enabled: state === 'open',
  })
}

export function itemsOf(pages: InfiniteData<Approvals> | undefined): Approval[] {
  return pages?.pages.flatMap((page) => page.items) ?? []
}

/** For the one part that is always there: how many, kept up to date for all. */
export function useWaiting(): { n: number; more: boolean } {
  const approvals = useApprovals()
  useReread('approvals', ['approvals'])
  return { n: itemsOf(approvals.data).length, more: approvals.hasNextPage }
}
