// Words in the language of the reader: that of the server's setting, else the browser's, else what was chosen here.
import { useSyncExternalStore } from 'react'
import { en } from './en'
import { ja } from './ja'

export type Language = 'en' | 'ja'
export type Key = keyof typeof en

const CATALOGUES: Record<Language, Record<Key, string>> = { en, ja }
const PLACE = 'pyoco.language'

const listeners = new Set<() => void>()
let current: Language = chosen()

export function language(): Language {
  return current
}

export function setLanguage(next: Language): void {
  current = next
  keep(next)
  document.documentElement.lang = next
  for (const tell of listeners) tell()
}

export function useLanguage(): Language {
  return useSyncExternalStore((tell) => {
    listeners.add(tell)
    return () => listeners.delete(tell)
  }, language)
}

/** The sentence of a key, with what stands in braces filled in. */
export function t(key: Key, values: Record<string, string | number> = {}): string {
  return filled(CATALOGUES[current][key], values)
}

/** For words the server may add to: the sentence of the key, else the word itself. */
export function word(key: string, otherwise: string): string {
  return key in CATALOGUES[current] ? CATALOGUES[current][key as Key] : otherwise
}

export function filled(sentence: string, values: Record<string, string | number>): string {
  return sentence.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole))
}

function chosen(): Language {
  const fixed = document.documentElement.dataset.lang
  const kept = kept_()
  if (kept) return kept
  if (fixed === 'en' || fixed === 'ja') return fixed
  return document.documentElement.lang === 'ja' ? 'ja' : 'en'
}

function kept_(): Language | null {
  try {
    const kept = localStorage.getItem(PLACE)
    return kept === 'en' || kept === 'ja' ? kept : null
  } catch {
    return null
  }
}

function keep(next: Language): void {
  try {
    localStorage.setItem(PLACE, next)
  } catch {
    // a browser that keeps nothing: the choice holds for this page
  }
}
