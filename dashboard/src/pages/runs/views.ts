// Named filters that the browser stores. The link of a view has its filters and its name, so it can be shared.
import { useSyncExternalStore } from 'react'

export type View = { name: string; words: string }

export const VIEWS_MAX = 50
export const NAME_CHARS_MAX = 60
const PLACE = 'pyoco.views'
/** Words of the address that belong to no view. */
const NOT_KEPT = ['view', 'start']

const listeners = new Set<() => void>()
let stored: string | null = null
let views: View[] = []

/** Of the address of the list, in one order: the same filters are the same words. */
export function wordsOf(query: URLSearchParams): string {
  const kept = [...query].filter(([name, value]) => !NOT_KEPT.includes(name) && value !== '')
  return new URLSearchParams(kept.sort(([a], [b]) => (a < b ? -1 : 1))).toString()
}

export function addressOf(view: View): string {
  const words = new URLSearchParams(view.words)
  words.set('view', view.name)
  return `#/runs?${words.toString()}`
}

/** The views with this one; one of the same name is replaced. By name. */
export function withView(all: View[], view: View): View[] {
  const others = all.filter((one) => one.name !== view.name)
  return [...others, view].sort((a, b) => a.name.localeCompare(b.name)).slice(0, VIEWS_MAX)
}

export function useViews(): View[] {
  return useSyncExternalStore(subscribe, read)
}

export function saveView(view: View): void {
  write(withView(read(), view))
}

export function removeView(name: string): void {
  write(read().filter((one) => one.name !== name))
}

/** Another tab may change them too. */
function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  addEventListener('storage', listener)
  return () => {
    listeners.delete(listener)
    removeEventListener('storage', listener)
  }
}

function read(): View[] {
  const text = kept()
  if (text !== stored) {
    stored = text
    views = viewsIn(text)
  }
  return views
}

export function viewsIn(text: string | null): View[] {
  try {
    const all: unknown = JSON.parse(text ?? '[]')
    if (!Array.isArray(all)) return []
    return all.filter((one): one is View => typeof one?.name === 'string' && typeof one?.words === 'string')
  } catch {
    return []
  }
}

let unkept: string | null = null

function kept(): string | null {
  try {
    return localStorage.getItem(PLACE)
  } catch {
    return unkept
  }
}

function write(next: View[]): void {
  const text = JSON.stringify(next)
  try {
    localStorage.setItem(PLACE, text)
  } catch {
    unkept = text // a browser that keeps nothing: the views hold for this page
  }
  for (const tell of listeners) tell()
}
