// Where we are: a path and a query behind the `#`, so that every page has an address and the API keeps its own.
import { useSyncExternalStore } from 'react'

export type Place = { path: string; query: URLSearchParams }

let text = location.hash
let current = parsed(text)

function parsed(hash: string): Place {
  const [path = '', query = ''] = hash.replace(/^#/, '').split('?', 2)
  return { path: path || '/runs', query: new URLSearchParams(query) }
}

function read(): Place {
  if (location.hash !== text) {
    text = location.hash
    current = parsed(text)
  }
  return current
}

export function usePlace(): Place {
  return useSyncExternalStore((tell) => {
    addEventListener('hashchange', tell)
    return () => removeEventListener('hashchange', tell)
  }, read)
}

export function go(address: string): void {
  location.hash = address
}

/** Go there instead of here; not a step that `back` returns to. */
export function goInstead(address: string): void {
  location.replace(`#${address}`)
}

/** The same page with other words in its query; not a step that `back` returns to. */
export function rewrite(changes: Record<string, string | null>): void {
  const { path, query } = read()
  const next = new URLSearchParams(query)
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === '') next.delete(name)
    else next.set(name, value)
  }
  const words = next.toString()
  history.replaceState(history.state, '', `#${path}${words ? `?${words}` : ''}`)
  dispatchEvent(new HashChangeEvent('hashchange'))
}

let entries = Date.now()

/** Of the step in the browser's history. Back and forward come to the same one, a link makes another. */
export function entryId(): number {
  const state = history.state as { entry?: number } | null
  if (state?.entry) return state.entry
  entries += 1
  history.replaceState({ entry: entries }, '')
  return entries
}

export function address(path: string, query: Record<string, string> = {}): string {
  const words = new URLSearchParams(query).toString()
  return `#${path}${words ? `?${words}` : ''}`
}
