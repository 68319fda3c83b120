// When a request that failed may be sent again. The one place that decides it: for pages, lists and the live connection.
//
// Reading what failed a moment ago gives the same error at once, without a request, until its pause is over. So no part
// of the page can repeat a failure faster than this, whatever asks it to read again.
import type { ApiError } from './client'

export const FIRST_PAUSE_MS = 1000
export const PAUSE_MAX_MS = 30_000
/** A server that asks for more than this is asked again after this. */
export const RETRY_AFTER_MAX_MS = 300_000
/** So many addresses are remembered; the oldest is forgotten first. */
const REMEMBERED_MAX = 200
const DOUBLINGS_MAX = 10

/** Doubles with each failure in a row. Half of it is chance, so that many pages do not come back at the same moment. */
export function pauseMs(failures: number, retryAfterMs: number, chance: number): number {
  const longest = Math.min(PAUSE_MAX_MS, FIRST_PAUSE_MS * 2 ** Math.min(DOUBLINGS_MAX, failures - 1))
  return Math.max((longest / 2) * (1 + chance), Math.min(RETRY_AFTER_MAX_MS, retryAfterMs))
}

/** `Retry-After` as seconds or as a date; 0 where there is none. */
export function retryAfterIn(header: string | null, now: number): number {
  if (header === null || header.trim() === '') return 0
  const seconds = Number(header)
  const ms = Number.isNaN(seconds) ? Date.parse(header) - now : seconds * 1000
  return Number.isFinite(ms) ? Math.max(0, ms) : 0
}

type Failure = { error: ApiError; failures: number; againAt: number }

export class Failures {
  private known = new Map<string, Failure>()

  constructor(
    private readonly clock: () => number = () => performance.now(),
    private readonly chance: () => number = Math.random,
  ) {}

  /** The error of the last answer, while its pause lasts. */
  held(address: string): ApiError | undefined {
    const failure = this.known.get(address)
    return failure && this.clock() < failure.againAt ? failure.error : undefined
  }

  failed(address: string, error: ApiError): void {
    const failures = (this.known.get(address)?.failures ?? 0) + 1
    const againAt = this.clock() + pauseMs(failures, error.retryAfterMs, this.chance())
    this.known.delete(address)
    this.known.set(address, { error, failures, againAt })
    const [oldest] = this.known.keys()
    if (this.known.size > REMEMBERED_MAX && oldest !== undefined) this.known.delete(oldest)
  }

  answered(address: string): void {
    this.known.delete(address)
  }

  /** How long until it may be asked again. */
  leftMs(address: string): number {
    return Math.max(0, (this.known.get(address)?.againAt ?? 0) - this.clock())
  }

  clear(): void {
    this.known.clear()
  }
}
