// What a list of runs is narrowed to: words of the address, parameters of the API, and whether one run fits.
import type { RunSummary } from '../../api/types'

export type Filters = { status: string; flow: string; tag: string; q: string; since: string }

export const SINCE: Record<string, number> = { hour: 3600, day: 86_400, week: 7 * 86_400 }

export function filtersIn(query: URLSearchParams): Filters {
  const word = (name: string) => query.get(name) ?? ''
  return { status: word('status'), flow: word('flow'), tag: word('tag'), q: word('q'), since: word('since') }
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
