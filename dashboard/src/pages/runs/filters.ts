// What a list of runs is narrowed to: words of the address, parameters of the API, and whether one run fits.
import type { RunSummary } from '../../api/types'
import { durationOf, ORDERS } from './order'
import { isInstant, secondsOf } from './submitted'

/** As the filter of the API has them, in the order of the buttons. A run that waits for an answer is not executing. */
export const CHOICES = ['PENDING', 'EXECUTING', 'WAITING', 'CANCELLING', 'COMPLETED', 'FAILED', 'CANCELLED'] as const
const STATUSES = [...CHOICES, 'RUNNING'] as const

/** `status`: none, one or several, separated by commas. `since`: of the last change. The others: of the submission. */
export type Filters = {
  status: string
  flow: string
  tag: string
  q: string
  since: string
  submitted: string
  from: string
  to: string
  sort: string
}

export const NO_FILTERS: Filters = {
  status: '',
  flow: '',
  tag: '',
  q: '',
  since: '',
  submitted: '',
  from: '',
  to: '',
  sort: '',
}

export const SINCE: Record<string, number> = { hour: 3600, day: 86_400, week: 7 * 86_400 }

/** What a word may be, where not everything is. */
const KNOWN: Partial<Record<keyof Filters, (given: string) => boolean>> = {
  status: (given) => given.split(',').every((one) => (STATUSES as readonly string[]).includes(one)),
  since: (given) => given in SINCE,
  submitted: (given) => given in SINCE,
  from: isInstant,
  to: isInstant,
  sort: (given) => (ORDERS as readonly string[]).includes(given),
}

function isKnown(name: keyof Filters, given: string): boolean {
  return KNOWN[name]?.(given) ?? true
}

export function statusesIn(status: string): string[] {
  return status.split(',').filter(Boolean)
}

/** The filter with this status added, or without it. Empty: all. */
export function toggled(status: string, one: string): string {
  const chosen = new Set(statusesIn(status).flatMap((name) => (name === 'RUNNING' ? ['EXECUTING', 'WAITING'] : [name])))
  if (!chosen.delete(one)) chosen.add(one)
  return CHOICES.filter((name) => chosen.has(name)).join(',')
}

/** What a run is shown as: its status, and whether it waits for an answer or for another worker. */
export function standing(run: RunSummary): string {
  if (run.status !== 'RUNNING') return run.status
  if (run.worker_alive === false) return 'UNHELD'
  return run.waiting_for ? 'WAITING' : run.status
}

function hasStatus(run: RunSummary, status: string): boolean {
  const waits = run.status === 'RUNNING' && run.waiting_for !== undefined
  const own = [run.status, ...(run.status === 'RUNNING' ? [waits ? 'WAITING' : 'EXECUTING'] : [])]
  return statusesIn(status).some((one) => own.includes(one as RunSummary['status']))
}

export function filtersIn(query: URLSearchParams): Filters {
  const word = (name: keyof Filters) => {
    const given = query.get(name) ?? ''
    return given === '' || isKnown(name, given) ? given : ''
  }
  const names = Object.keys(NO_FILTERS) as (keyof Filters)[]
  return Object.fromEntries(names.map((name) => [name, word(name)])) as Filters
}

/** Words of the address that are no filter and are left out, as they stand there. */
export function unknownIn(query: URLSearchParams): string[] {
  const names = Object.keys(KNOWN) as (keyof Filters)[]
  return names
    .filter((name) => query.get(name) && !isKnown(name, query.get(name) ?? ''))
    .map((name) => `${name}=${query.get(name)}`)
}

/** By duration only runs are listed that have one. */
export function isNarrowed(filters: Filters): boolean {
  const { sort, ...others } = filters
  return sort.endsWith('duration') || Object.values(others).some(Boolean)
}

/** What the list is sorted by: with a range of submissions the server sorts by these. */
export function orderOf(filters: Filters): string {
  return filters.sort || (filters.submitted || filters.from || filters.to ? '-submitted' : '')
}

/** Words of the request. Several of one name are sent one by one. */
export type Asked = Record<string, string | number | string[] | undefined>

export function asked(filters: Filters, now: number): Asked {
  const seconds = SINCE[filters.since]
  return {
    status: filters.status ? statusesIn(filters.status) : undefined,
    flow: filters.flow || undefined,
    tag: filters.tag || undefined,
    q: filters.q || undefined,
    updated_after: seconds ? now - seconds : undefined,
    ...submissions(filters, now),
    sort: orderOf(filters) || undefined,
  }
}

function submissions(filters: Filters, now: number): { submitted_after?: number; submitted_before?: number } {
  const seconds = SINCE[filters.submitted]
  return {
    submitted_after: seconds ? now - seconds : secondsOf(filters.from),
    submitted_before: secondsOf(filters.to),
  }
}

/** As the server would decide it. */
export function fits(run: RunSummary, filters: Filters, now: number): boolean {
  const seconds = SINCE[filters.since]
  if (filters.status && !hasStatus(run, filters.status)) return false
  if (filters.flow && run.flow_name !== filters.flow) return false
  if (filters.tag && run.tag !== filters.tag) return false
  if (seconds && run.updated_at <= now - seconds) return false
  const { submitted_after: after, submitted_before: before } = submissions(filters, now)
  if (after !== undefined && run.submitted_at <= after) return false
  if (before !== undefined && run.submitted_at >= before) return false
  if (filters.sort.endsWith('duration') && durationOf(run) === null) return false
  return !filters.q || hasText(run, filters.q.toLowerCase())
}

function hasText(run: RunSummary, sought: string): boolean {
  const shown = [run.run_id, run.flow_name, run.tag, ...run.tags, run.worker_id ?? '', run.error ?? '']
  return shown.some((one) => one.toLowerCase().includes(sought))
}
