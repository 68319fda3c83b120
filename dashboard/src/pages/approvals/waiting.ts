// What waits for a person: read once, and again when something began to wait or was answered.
import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { get } from '../../api/client'
import type { Approval } from '../../api/executions'
import { useCell } from '../../live/cell'
import { connection } from '../../live/news'
import { useReread } from '../../live/reread'

export type Approvals = { items: Approval[]; next_cursor: string | null }

const LIMIT = 100

export function useApprovals(): UseQueryResult<Approvals> {
  const { state } = useCell(connection)
  return useQuery({ queryKey: ['approvals'], queryFn: () => get<Approvals>('/approvals', { limit: LIMIT }), enabled: state === 'open', retry: false })
}

/** For the one part that is always there: how many, kept up to date for all. */
export function useWaiting(): number {
  const approvals = useApprovals()
  useReread('approvals', ['approvals'])
  return approvals.data?.items.length ?? 0
}
