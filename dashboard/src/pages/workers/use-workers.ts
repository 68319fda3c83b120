// All workers, as they are told: everything first, then what changed. However many parts look, it is told once.
import { useEffect } from 'react'
import { follow } from '../../api/stream'
import type { Worker } from '../../api/types'
import { Cell, useCell } from '../../live/cell'

const known = new Cell<Map<string, Worker> | null>(null)
let looking = 0
let leave: (() => void) | undefined

/** Null until it is known; and while `wanted` is not true. */
export function useWorkers(wanted = true): Worker[] | null {
  useEffect(() => (wanted ? look() : undefined), [wanted])
  const workers = useCell(known)
  return wanted && workers ? [...workers.values()] : null
}

function look(): () => void {
  looking += 1
  if (looking === 1) leave = follow({ topic: 'workers', onEvent: (_, data) => take(data as { workers: Worker[] }) })
  return () => {
    looking -= 1
    if (looking > 0) return
    leave?.()
    known.set(null)
  }
}

function take({ workers }: { workers: Worker[] }): void {
  known.set(new Map([...(known.get() ?? []), ...workers.map((one) => [one.worker_id, one] as const)]))
}
