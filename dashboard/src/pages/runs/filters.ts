// What a list of runs is narrowed to: words of the address, parameters of the API, and whether one run fits.
import { type RunSummary, STATUSES } from '../../api/types'

export type Filters = { status: string; flow: string; tag: string; q: string; since: string }

export const SINCE: Record<string, number> = { hour: 3600, day: 86_400, week: 7 * 86_400 }

/** What a word may be, where not everything is. */
const KNOWN: Partial<Record<keyof Filters, string[]>> = { status: STATUSES, since: Object.keys(SINCE) }

export function filtersIn(query: URLSearchParams): Filters {
  const word = (name: keyof Filters) => {
    const given = query.get(name) ?? ''
    return KNOWN[name]?.includes(given) === false ? '' : given
  }
  return { status: word('status'), flow: word('flow'), tag: word('tag'), q: word('q'), since: word('since') }
}

/** Words of the address that are no filter and are left out, as they stand there. */
export function unknownIn(query: URLSearchParams): string[] {
  const names = Object.keys(KNOWN) as (keyof Filters)[]
  return names
    .filter((name) => query.get(name) && !KNOWN[name]?.includes(query.get(name) ?? ''))
    .map((name) => `${name}=${query.get(name)}`)
}

export function isNarrowed(filters: Filters): boolean {
  return Object.values(filters).some(Boolean)
}

export function asked(filters: Filters, now: number): Record<string, string | number | undefined> {
  const seconds = SINCE[filters.since]
  return {
    status: filters.status || undefined,
    flow: filters.flow || undefined,
    tag: filters.tag || undefined,
    q: filters.q || undefined,
    updated_after: seconds ? now - seconds : undefined,
  }
}

/** As the server would decide it. */
export function fits(run: RunSummary, filters: Filters, now: number): boolean {
  const seconds = SINCE[filters.since]
  if (filters.status && run.status !== filters.status) return false
  if (filters.flow && run.flow_name !== filters.flow) return false
  if (filters.tag && run.tag !== filters.tag) return false
  if (seconds && run.updated_at <= now - seconds) return false
  return !filters.q || hasText(run, filters.q.toLowerCase())
}

function hasText(run: RunSummary, sought: string): boolean {
  const shown = [run.run_id, run.flow_name, run.tag, ...run.tags, run.worker_id ?? '', run.error ?? '']
  return shown.some((one) => one.toLowerCase().includes(sought))
}
