// All workers, as they are told: everything first, then what changed.
import { useEffect, useState } from 'react'
import { follow } from '../../api/stream'
import type { Worker } from '../../api/types'

export function useWorkers(): Worker[] | null {
  const [workers, setWorkers] = useState<Map<string, Worker> | null>(null)
  useEffect(
    () =>
      follow({
        path: '/workers/stream',
        onEvent: ({ data }) => {
          const { workers: changed } = JSON.parse(data) as { workers: Worker[] }
          setWorkers((before) => new Map([...(before ?? []), ...changed.map((one) => [one.worker_id, one] as const)]))
        },
        // Of no worker at all nothing is ever told.
        onState: (state) => state === 'open' && setTimeout(() => setWorkers((before) => before ?? new Map()), 600),
      }),
    [],
  )
  return workers && [...workers.values()]
}
