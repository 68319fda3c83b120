// A value that parts of the page look at, outside of React: changed from streams, told at most once a frame.
import { useSyncExternalStore } from 'react'

export class Cell<T> {
  private listeners = new Set<() => void>()
  private due = false

  constructor(private value: T) {}

  get = (): T => this.value

  set(next: T): void {
    this.value = next
    this.tell()
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  private tell(): void {
    if (this.due) return
    this.due = true
    queueFrame(() => {
      this.due = false
      for (const listener of this.listeners) listener()
    })
  }
}

export function useCell<T>(cell: Cell<T>): T {
  return useSyncExternalStore(cell.subscribe, cell.get)
}

/** The next frame; or soon, where none are drawn. */
function queueFrame(act: () => void): void {
  if (document.hidden) setTimeout(act, 50)
  else requestAnimationFrame(act)
}
