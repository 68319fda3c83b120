// Instants, spans, sizes and numbers as people read them, in the reader's language.
import { type Language, language } from './text'

/** A format costs more to make than to use a thousand times. One for each language. */
function byLanguage<T>(make: (language: Language) => T): () => T {
  const made = new Map<Language, T>()
  return () => {
    const current = language()
    const known = made.get(current)
    if (known) return known
    const format = make(current)
    made.set(current, format)
    return format
  }
}

const numbers = byLanguage((one) => new Intl.NumberFormat(one))
const ages = byLanguage((one) => new Intl.RelativeTimeFormat(one, { style: 'narrow', numeric: 'auto' }))
const instants = byLanguage((one) => new Intl.DateTimeFormat(one, { dateStyle: 'medium', timeStyle: 'medium' }))

export function number(value: number): string {
  return numbers().format(value)
}

const UNITS_OF_TIME = { en: [' d', ' h', ' m', ' s'], ja: ['日', '時間', '分', '秒'] } as const

/** `1.2 s`, `3 m 20 s`, `2 h 5 m`, `3 d 4 h`. */
export function span(seconds: number): string {
  const [d, h, m, s] = UNITS_OF_TIME[language()]
  if (seconds < 0.0005) return `0${s}`
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 10) return `${seconds.toFixed(1)}${s}`
  if (seconds < 60) return `${Math.floor(seconds)}${s}`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return two(minutes, m, Math.floor(seconds % 60), s)
  const hours = Math.floor(minutes / 60)
  if (hours < 48) return two(hours, h, minutes % 60, m)
  return two(Math.floor(hours / 24), d, hours % 24, h)
}

/** Of what is nothing nothing is said. */
function two(large: number, unit: string, small: number, smaller: string): string {
  return small === 0 ? `${large}${unit}` : `${large}${unit} ${small}${smaller}`
}

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]

/** Unix seconds against now: `3 min ago`. */
export function ago(at: number, now: number): string {
  const difference = at - now
  const [unit, size] = STEPS.find(([, seconds]) => Math.abs(difference) >= seconds) ?? ['second', 1]
  return ages().format(Math.trunc(difference / size), unit)
}

export function exact(at: number): string {
  return instants().format(at * 1000)
}

/** By the clock of a zone, with its name; without a zone that of the reader. */
export function exactIn(at: number, zone?: string | null): string {
  const shown = { dateStyle: 'medium', timeStyle: 'medium' } as const
  try {
    if (zone) return `${new Intl.DateTimeFormat(language(), { ...shown, timeZone: zone }).format(at * 1000)} ${zone}`
  } catch {
    // a zone that the server knows and this browser does not
  }
  return exact(at)
}

export function clock(at: number, withMillis = false): string {
  const date = new Date(at * 1000)
  const pad = (value: number, size = 2) => String(value).padStart(size, '0')
  const base = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`
  return withMillis ? `${base}.${pad(date.getMilliseconds(), 3)}` : base
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function bytes(size: number): string {
  const step = Math.min(UNITS.length - 1, size < 1 ? 0 : Math.floor(Math.log2(size) / 10))
  const value = size / 1024 ** step
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[step]}`
}

/** Enough of an id to tell runs apart at a glance. */
export function short(id: string): string {
  return id.slice(0, 8)
}

/** Seconds of either kind of instant the API uses. */
export function instant(value: number | string | null | undefined): number | null {
  if (value === null || value === undefined) return null
  return typeof value === 'number' ? value : Date.parse(value) / 1000
}
