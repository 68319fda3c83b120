// Requests to the public API: JSON in and out, errors as one type with the server's own sentence.
import { language } from '../text/text'
import { credentialHeaders } from './session'

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly body: unknown,
  ) {
    super(message)
  }

  /** The place and text of each problem, where the server names them. */
  get problems(): Problem[] {
    const detail = (this.body as { detail?: unknown } | null)?.detail
    return Array.isArray(detail) ? (detail as Problem[]) : []
  }
}

/** It was answered, and the answer is no. */
export function isRefusal(error: unknown): boolean {
  return error instanceof ApiError && error.status >= 400 && error.status < 500
}

export type Problem = { loc?: (string | number)[]; msg: string; line?: number; column?: number }

export type Asked = {
  method?: string
  query?: Record<string, string | number | boolean | null | undefined>
  json?: unknown
  body?: BodyInit
  headers?: Record<string, string>
  signal?: AbortSignal
}

export async function ask(path: string, asked: Asked = {}): Promise<Response> {
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

export async function send<T>(method: string, path: string, json?: unknown, headers?: Record<string, string>): Promise<T> {
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
  return new ApiError(answer.status, sentenceOf(body) ?? answer.statusText, body)
}

function sentenceOf(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null) return undefined
  const { detail, message, error } = body as Record<string, unknown>
  if (typeof detail === 'string') return detail
  if (Array.isArray(detail)) return detail.map((one: Problem) => one.msg).join('; ')
  if (typeof error === 'object' && error !== null) return String((error as { message?: string }).message ?? '')
  return typeof message === 'string' ? message : undefined
}
