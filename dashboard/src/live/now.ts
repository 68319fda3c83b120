// The time, for whatever shows how long ago something was: one clock for all, by the gateway's own.
import { useSyncExternalStore } from 'react'
import { clockAhead } from './news'

const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined
let current = Date.now() / 1000

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    current = now()
    if (!document.hidden) for (const tell of listeners) tell()
  }, 1000)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

export function now(): number {
  return Date.now() / 1000 + clockAhead.get()
}

const STALE_SEC = 1

/** While the interval does not run, because no part subscribes, the value is renewed here. */
function read(): number {
  if (timer === undefined && Math.abs(now() - current) > STALE_SEC) current = now()
  return current
}

/** Whole seconds are enough for those who look; told once a second. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, read)
}
