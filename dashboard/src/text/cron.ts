// A cron expression in words, where its form is a usual one. Pure. Null: the expression alone is clearer.
import { language, t } from './text'

type Part = { kind: 'any' } | { kind: 'step'; n: number } | { kind: 'values'; values: number[]; range: boolean }
type Bounds = { least: number; most: number; names?: string[] }

const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec']
const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat']
const MINUTE: Bounds = { least: 0, most: 59 }
const HOUR: Bounds = { least: 0, most: 23 }
const DAY: Bounds = { least: 1, most: 31 }
const MONTH: Bounds = { least: 1, most: 12, names: MONTHS }
const WEEKDAY: Bounds = { least: 0, most: 7, names: DAYS }
/** More times of a day are shorter as the expression. */
const TIMES_MAX = 6
const LAST_DAY = 'l'

export function cronInWords(cron: string): string | null {
  const fields = cron.trim().toLowerCase().split(/\s+/)
  const [minute, hour, day, month, weekday] = fields
  if (fields.length !== 5 || !minute || !hour || !day || !month || !weekday) return null
  const isLast = day === LAST_DAY
  const parts = {
    minute: partOf(minute, MINUTE),
    hour: partOf(hour, HOUR),
    day: isLast ? { kind: 'any' as const } : partOf(day, DAY),
    month: partOf(month, MONTH),
    weekday: partOf(weekday, WEEKDAY),
  }
  if (Object.values(parts).some((part) => part === null)) return null
  const time = timeOf(parts.minute as Part, parts.hour as Part)
  const days = daysOf(parts.day as Part, parts.month as Part, parts.weekday as Part, isLast)
  if (time === null || days === null) return null
  if (days !== '') return t('cron.on', { time: time.words, days })
  return time.isOfDay ? t('cron.daily', { time: time.words }) : time.words
}

function partOf(text: string, bounds: Bounds): Part | null {
  if (text === '*' || text === '?') return { kind: 'any' }
  const step = /^\*\/(\d+)$/.exec(text)
  if (step) return evenStep(Number(step[1]), bounds)
  const ranges = text.split(',').map((one) => rangeOf(one, bounds))
  if (ranges.some((one) => one === null)) return null
  const values = [...new Set((ranges as number[][]).flat())].sort((one, other) => one - other)
  return { kind: 'values', values, range: ranges.length === 1 && values.length > 2 && isWhole(values) }
}

/** `*\/7` of minutes is not every seven minutes: it begins again with each hour. */
function evenStep(n: number, { least, most }: Bounds): Part | null {
  if (n === 1) return { kind: 'any' }
  return n > 1 && least === 0 && (most + 1) % n === 0 ? { kind: 'step', n } : null
}

function rangeOf(text: string, bounds: Bounds): number[] | null {
  const found = /^(\w+)(?:-(\w+))?(?:\/(\d+))?$/.exec(text)
  if (!found || (found[3] !== undefined && found[2] === undefined)) return null
  const from = valueAt(found[1] as string, bounds)
  const to = found[2] === undefined ? from : valueAt(found[2], bounds)
  const step = Number(found[3] ?? 1)
  if (from === null || to === null || to < from || step < 1) return null
  const values = []
  for (let value = from; value <= to; value += step) values.push(bounds === WEEKDAY ? value % 7 : value)
  return values
}

function valueAt(text: string, { least, most, names }: Bounds): number | null {
  const named = names ? names.indexOf(text) : -1
  const value = named >= 0 ? named + (names === MONTHS ? 1 : 0) : /^\d+$/.test(text) ? Number(text) : Number.NaN
  return value >= least && value <= most ? value : null
}

function isWhole(values: number[]): boolean {
  return values.every((value, index) => index === 0 || value === (values[index - 1] as number) + 1)
}

const pad = (value: number) => String(value).padStart(2, '0')
const joined = (words: string[]) =>
  words.length < 2 ? words.join('') : words.slice(0, -1).join(t('cron.comma')) + t('cron.and') + words.at(-1)

/** `isOfDay`: at certain times of a day, so that it needs to be said of which days. */
function timeOf(minute: Part, hour: Part): { words: string; isOfDay: boolean } | null {
  const often = (words: string) => ({ words, isOfDay: false })
  if (hour.kind === 'values' && minute.kind === 'values') {
    const minutes = joined(minute.values.map(pad))
    if (hour.range && minute.values.length === 1) {
      const from = `${pad(hour.values[0] as number)}:${minutes}`
      const to = `${pad(hour.values.at(-1) as number)}:${minutes}`
      return often(t('cron.hourlyBetween', { minutes: Number(minutes), from, to }))
    }
    const times = hour.values.flatMap((one) => minute.values.map((other) => `${pad(one)}:${pad(other)}`))
    return times.length > TIMES_MAX ? null : { words: t('cron.at', { times: joined(times) }), isOfDay: true }
  }
  if (hour.kind === 'values') {
    if (!hour.range && hour.values.length > 1) return null
    const n = minute.kind === 'step' ? minute.n : 1
    const from = `${pad(hour.values[0] as number)}:00`
    return often(t('cron.everyNBetween', { n, from, to: `${pad(hour.values.at(-1) as number)}:${pad(60 - n)}` }))
  }
  if (minute.kind === 'values') {
    const minutes = joined(minute.values.map(String))
    return often(hour.kind === 'step' ? t('cron.hourlyN', { n: hour.n, minutes }) : t('cron.hourly', { minutes }))
  }
  if (hour.kind === 'step') return null
  return often(minute.kind === 'step' ? t('cron.everyN', { n: minute.n }) : t('cron.every'))
}

/** Empty: every day. Cron takes a day that fits either of day and weekday, where both are given. */
function daysOf(day: Part, month: Part, weekday: Part, isLast: boolean): string | null {
  if (day.kind === 'step' || month.kind === 'step' || weekday.kind === 'step') return null
  const ofMonth = isLast ? t('cron.lastDay') : day.kind === 'values' ? daysOfMonth(day, month) : ''
  const ofWeek = weekday.kind === 'values' ? weekdays(weekday) : ''
  if (isLast && month.kind === 'values') return null
  const months = month.kind === 'values' && day.kind === 'any' ? t('cron.inMonths', { months: monthNames(month) }) : ''
  if (ofMonth && ofWeek) return t('cron.either', { one: ofMonth, other: ofWeek })
  if (months && ofWeek) return `${months}${t('cron.comma')}${ofWeek}`
  return ofMonth || ofWeek || months
}

function daysOfMonth(day: Part & { kind: 'values' }, month: Part): string {
  if (month.kind !== 'values') return t('cron.dayOfMonth', { days: rangeOr(day, String) })
  const format = new Intl.DateTimeFormat(language(), { month: 'long', day: 'numeric', timeZone: 'UTC' })
  const dates = month.values.flatMap((one) => day.values.map((other) => format.format(Date.UTC(2024, one - 1, other))))
  return t('cron.dayOfYear', { days: joined(dates) })
}

function monthNames(month: Part & { kind: 'values' }): string {
  const format = new Intl.DateTimeFormat(language(), { month: 'long', timeZone: 'UTC' })
  return rangeOr(month, (one) => format.format(Date.UTC(2024, one - 1, 1)))
}

function weekdays(weekday: Part & { kind: 'values' }): string {
  const format = new Intl.DateTimeFormat(language(), { weekday: 'long', timeZone: 'UTC' })
  // The 7th of January 2024 was a Sunday.
  return rangeOr(weekday, (one) => format.format(Date.UTC(2024, 0, 7 + one)))
}

function rangeOr({ values, range }: Part & { kind: 'values' }, named: (value: number) => string): string {
  if (!range) return joined(values.map(named))
  return t('cron.range', { from: named(values[0] as number), to: named(values.at(-1) as number) })
}
