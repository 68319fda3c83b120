// How the log is shown: which lines, which columns, wrapped or not. The browser stores the choice of columns.
import { useSyncExternalStore } from 'react'
import type { Line } from './log-lines'

export type LogView = { wrap: boolean; time: boolean; task: boolean }

export const LEVELS = ['INFO', 'WARNING', 'ERROR'] as const
export type Level = (typeof LEVELS)[number]

const PLACE = 'pyoco.log'
const PHONE = '(max-width: 760px)'

const listeners = new Set<() => void>()
let current = storedView()

export function useLogView(): LogView {
  return useSyncExternalStore(
    (tell) => {
      listeners.add(tell)
      return () => listeners.delete(tell)
    },
    () => current,
  )
}

export function changeView(some: Partial<LogView>): void {
  current = { ...current, ...some }
  for (const tell of listeners) tell()
  try {
    localStorage.setItem(PLACE, JSON.stringify(current))
  } catch {
    // A browser that stores nothing: the choice holds for this page.
  }
}

function storedView(): LogView {
  const usual = { wrap: globalThis.matchMedia?.(PHONE).matches ?? false, time: true, task: true }
  try {
    return { ...usual, ...JSON.parse(localStorage.getItem(PLACE) ?? '{}') }
  } catch {
    return usual
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: escape codes begin with a control character
const ESCAPES = /\u001b\[[\d;]*[A-Za-z]/g

export function plain(message: string): string {
  return message.includes('\u001b') ? message.replace(ESCAPES, '') : message
}

const RANKS: Record<string, number> = { DEBUG: 0, INFO: 1, WARN: 2, WARNING: 2, ERROR: 3, CRITICAL: 4, FATAL: 4 }
const WORD = /\b(DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b/
const JSON_LEVEL = /"(?:level|levelname|severity)"\s*:\s*"(\w+)"/
const LOOKED_AT_CHARS = 120

/** The rank of a line: as it was recorded, else by the word at its beginning. Without either it is information. */
export function rankOf(line: Line): number {
  const recorded = RANKS[line.level ?? '']
  if (recorded !== undefined) return recorded
  const text = plain(line.message).slice(0, LOOKED_AT_CHARS)
  const found = text.startsWith('{') ? JSON_LEVEL.exec(text) : WORD.exec(text)
  return RANKS[found?.[1]?.toUpperCase() ?? ''] ?? RANKS.INFO ?? 1
}

/** Lines of this task and of at least this level. `null` selects all. */
export function chosenLines(lines: Line[], task: string | null, level: Level | null): Line[] {
  if (task === null && level === null) return lines
  const least = level === null ? 0 : (RANKS[level] ?? 0)
  return lines.filter((line) => (task === null || line.task === task) && rankOf(line) >= least)
}

/** The object or the array at the end of a line, as after a timestamp. `null` if there is none. */
export function jsonIn(message: string): unknown {
  const text = plain(message).trim()
  if (!/[}\]]$/.test(text)) return null
  const begin = text.search(/[{[]/)
  try {
    const value: unknown = JSON.parse(text.slice(begin))
    return typeof value === 'object' && value !== null && Object.keys(value).length > 0 ? value : null
  } catch {
    return null
  }
}

export type Piece = { text: string; className: string; hit: boolean }

/** Parts of a line, divided where the searched text begins and ends. A match can go across several parts. */
export function withHits(parts: { text: string; className: string }[], sought: string): Piece[] {
  if (sought === '') return parts.map((one) => ({ ...one, hit: false }))
  const whole = parts.map((one) => one.text).join('')
  const pieces: Piece[] = []
  let hit = whole.indexOf(sought)
  let begin = 0
  for (const { text, className } of parts) {
    for (let at = 0; at < text.length; ) {
      if (hit >= 0 && begin + at >= hit + sought.length) hit = whole.indexOf(sought, hit + sought.length)
      const isHit = hit >= 0 && begin + at >= hit
      const until = hit < 0 ? whole.length : isHit ? hit + sought.length : hit
      const end = Math.min(text.length, until - begin)
      pieces.push({ text: text.slice(at, end), className, hit: isHit })
      at = end
    }
    begin += text.length
  }
  return pieces
}
