// Requests to the public API: JSON in and out, errors as one type with the server's own sentence.
import { language } from '../text/text'
import { Failures, retryAfterIn } from './backoff'
import { credentialHeaders, onCredential } from './session'

export class ApiError extends Error {
  /** Where a failed read is remembered, if it is. */
  address: string | null = null
  /** Not asked: this is the answer of a moment ago, whose pause is not over. */
  held = false

  constructor(
    readonly status: number,
    message: string,
    readonly body: unknown,
    readonly retryAfterMs = 0,
  ) {
    super(message)
  }

  /** The place and text of each problem, where the server names them. */
  get problems(): Problem[] {
    const detail = (this.body as { detail?: unknown } | null)?.detail
    return Array.isArray(detail) ? (detail as Problem[]) : []
  }
}

/** Too early or too often: the same request may be answered later. */
const LATER = new Set([408, 425, 429])

/** It was answered, and the answer is no. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500 && !LATER.has(error.status)
}

const failures = new Failures()
onCredential(() => failures.clear())

/** The reader asks for it: what failed may be asked again at once. */
export function forgetFailures(): void {
  failures.clear()
}

/** After how long a failed read is repeated without being asked to; null where it is not. */
export function repeatMs(error: unknown): number | null {
  if (!(error instanceof ApiError) || (isRefusal(error) && !error.held)) return null
  return error.address === null ? 0 : failures.leftMs(error.address)
}

/** A connection that was answered and did not last has failed all the same. */
export function noteFailure(path: string, error: ApiError): ApiError {
  error.address = path
  failures.failed(path, error)
  return error
}

export function noteAnswer(path: string): void {
  failures.answered(path)
}

export type Problem = { loc?: (string | number)[]; msg: string; line?: number; column?: number }

export type Asked = {
  method?: string
  query?: Record<string, string | number | boolean | null | undefined>
  json?: unknown
  body?: BodyInit
  headers?: Record<string, string>
  signal?: AbortSignal
  /** A connection that stays: whether it is good is known later, and noted by who reads it. */
  stays?: boolean
}

/** Reads are held back while the pause after a failure lasts; what changes something is always sent. */
export async function ask(path: string, asked: Asked = {}): Promise<Response> {
  if ((asked.method ?? 'GET') !== 'GET') return request(path, asked)
  const place = path.split('?', 1)[0] as string
  // A refusal is about these very words, anything else about the place.
  const words = addressOf(path, asked.query)
  for (const address of [place, words]) {
    const before = failures.held(address)
    if (before) throw heldBack(before, address)
  }
  try {
    const answer = await request(path, asked)
    failures.answered(words)
    if (!asked.stays) failures.answered(place)
    return answer
  } catch (error) {
    if (error instanceof ApiError) noteFailure(isRefusal(error) ? words : place, error)
    throw error
  }
}

function heldBack(before: ApiError, address: string): ApiError {
  const error = new ApiError(before.status, before.message, before.body)
  return Object.assign(error, { address, held: true })
}

async function request(path: string, asked: Asked): Promise<Response> {
  const headers: Record<string, string> = {
    'Accept-Language': language(),
    ...credentialHeaders(),
    ...(asked.json === undefined ? {} : { 'Content-Type': 'application/json' }),
    ...asked.headers,
  }
  let answer: Response
  try {
    answer = await fetch(addressOf(path, asked.query), {
      method: asked.method ?? 'GET',
      headers,
      body: asked.json === undefined ? asked.body : JSON.stringify(asked.json),
      signal: asked.signal,
    })
  } catch (error) {
    if ((error as Error).name === 'AbortError') throw error
    throw new ApiError(0, '', null)
  }
  if (!answer.ok) throw await errorOf(answer)
  return answer
}

export async function get<T>(path: string, query?: Asked['query'], signal?: AbortSignal): Promise<T> {
  return (await (await ask(path, { query, signal })).json()) as T
}

export async function send<T>(
  method: string,
  path: string,
  json?: unknown,
  headers?: Record<string, string>,
): Promise<T> {
  const answer = await ask(path, { method, json, headers })
  const text = await answer.text()
  return (text ? JSON.parse(text) : null) as T
}

export const part = encodeURIComponent

/** Relative to the page, which may stand below a proxy's path. */
export function addressOf(path: string, query: Asked['query'] = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '')
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return `.${path}${text ? `?${text}` : ''}`
}

async function errorOf(answer: Response): Promise<ApiError> {
  const body: unknown = await answer.json().catch(() => null)
  const retryAfterMs = retryAfterIn(answer.headers.get('Retry-After'), Date.now())
  return new ApiError(answer.status, sentenceOf(body) ?? answer.statusText, body, retryAfterMs)
}

function sentenceOf(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined
  const { detail, message, error } = body as Record<string, unknown>
  if (typeof detail === 'string') return detail
  if (Array.isArray(detail)) return detail.map((one: Problem) => one.msg).join('; ')
  if (typeof error === 'object' && error !== null) return String((error as { message?: string }).message ?? '')
  return typeof message === 'string' ? message : undefined
}
