// What waits for a person: read once, and again when a run that waits, or begins to, has changed.
import { type UseQueryResult, useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect } from 'react'
import { get } from '../../api/client'
import type { Approval } from '../../api/executions'
import { useCell } from '../../live/cell'
import { connection, onNews } from '../../live/news'

export type Approvals = { items: Approval[]; next_cursor: string | null }

const LIMIT = 100
const REREAD_MS = 300

export function useApprovals(): UseQueryResult<Approvals> {
  const { state } = useCell(connection)
  return useQuery({ queryKey: ['approvals'], queryFn: () => get<Approvals>('/approvals', { limit: LIMIT }), enabled: state === 'open', retry: false })
}

/** For the one part that is always there: how many, kept up to date for all. */
export function useWaiting(): number {
  const queries = useQueryClient()
  const approvals = useApprovals()
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = onNews(() => {
      timer ??= setTimeout(() => {
        timer = undefined
        void queries.invalidateQueries({ queryKey: ['approvals'] })
      }, REREAD_MS)
    })
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, [queries])
  return approvals.data?.items.length ?? 0
}
