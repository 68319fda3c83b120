// All workers, as they are told: everybody first, then who changed or is gone. However many parts look, it is told once.
import { useEffect } from 'react'
import type { ApiError } from '../../api/client'
import { follow } from '../../api/stream'
import type { Worker } from '../../api/types'
import { Cell, useCell } from '../../live/cell'

type Told = { workers: Worker[]; gone: string[]; all: boolean }

export const known = new Cell<Map<string, Worker> | null>(null)
/** Why we are not told, where that is so. */
export const refused = new Cell<ApiError | null>(null)
/** Whether the first answer is still to come. Not while the connection is lost or refused, and not for long: it may be held back on its way. */
export const awaited = new Cell(true)
const AWAITED_MS = 3000
let looking = 0
let leave: (() => void) | undefined
let givingUp: ReturnType<typeof setTimeout> | undefined

/** Null until it is known; and while `wanted` is not true. */
export function useWorkers(wanted = true): Worker[] | null {
  useEffect(() => (wanted ? look() : undefined), [wanted])
  const workers = useCell(known)
  return wanted && workers ? [...workers.values()] : null
}

/** Until the returned function is called. */
export function look(): () => void {
  looking += 1
  if (looking === 1) {
    ask()
    givingUp = setTimeout(() => awaited.set(false), AWAITED_MS)
  }
  return () => {
    looking -= 1
    if (looking > 0) return
    leave?.()
    leave = undefined
    known.set(null)
    clearTimeout(givingUp)
    awaited.set(true)
  }
}

/** Also again, after a refusal. */
export function ask(): void {
  refused.set(null)
  leave?.()
  leave = follow({
    topic: 'workers',
    onEvent: (_, data) => take(data as Told),
    onState: (state, error) => {
      refused.set(state === 'refused' ? error : null)
      if (state === 'lost' || state === 'refused') awaited.set(false)
    },
  })
}

function take({ workers, gone, all }: Told): void {
  const before = all ? [] : (known.get() ?? [])
  const now = new Map([...before, ...workers.map((one) => [one.worker_id, one] as const)])
  for (const id of gone) now.delete(id)
  known.set(now)
  awaited.set(false)
}
