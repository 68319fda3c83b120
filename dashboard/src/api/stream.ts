// A stream that is kept: read with our credentials, resumed where it ended, and let go while nobody looks.
//
// Browsers allow few connections to one place. So a tab in the background gives its streams back after a while,
// and goes on without a gap when it is looked at again.
import { ApiError, ask } from './client'
import { EventParser, type ServerEvent } from './sse'

export type StreamState = 'connecting' | 'open' | 'lost' | 'refused' | 'over'

export type StreamAsked = {
  path: string
  query?: Record<string, string | number | boolean | undefined>
  lastEventId?: string
  onEvent: (event: ServerEvent) => void
  onState?: (state: StreamState, error: ApiError | null) => void
}

const WAIT_MS = [500, 1000, 2000, 4000]
const HIDDEN_MS = 20_000
// After an ordinary end: soon, but never in a tight circle.
const CLOSED_MS = 250

/** Follows until the returned function is called, or the server says that there is no more (204). */
export function follow(asked: StreamAsked): () => void {
  const stream = new Kept(asked)
  stream.start()
  return () => stream.stop()
}

class Kept {
  private abort = new AbortController()
  private stopped = false
  private paused = false
  private tries = 0
  private lastId: string | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private hiding: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly asked: StreamAsked) {
    this.lastId = asked.lastEventId
  }

  start(): void {
    document.addEventListener('visibilitychange', this.seen)
    void this.read()
  }

  stop(): void {
    this.stopped = true
    document.removeEventListener('visibilitychange', this.seen)
    clearTimeout(this.timer)
    clearTimeout(this.hiding)
    this.abort.abort()
  }

  private seen = (): void => {
    clearTimeout(this.hiding)
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.paused = true
        this.abort.abort()
      }, HIDDEN_MS)
    } else if (this.paused) {
      this.paused = false
      void this.read()
    }
  }

  private async read(): Promise<void> {
    clearTimeout(this.timer)
    this.abort = new AbortController()
    if (this.tries === 0) this.tell('connecting', null)
    try {
      const headers = this.lastId ? { 'Last-Event-ID': this.lastId } : undefined
      const answer = await ask(this.asked.path, { query: this.asked.query, headers, signal: this.abort.signal })
      if (answer.status === 204 || answer.body === null) {
        this.end()
        return
      }
      this.tries = 0
      this.tell('open', null)
      await this.take(answer.body)
      this.again(null)
    } catch (error) {
      this.failed(error)
    }
  }

  private async take(body: ReadableStream<Uint8Array>): Promise<void> {
    const parser = new EventParser()
    const reader = body.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>).getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      for (const event of parser.take(value)) {
        if (event.id !== undefined) this.lastId = event.id
        this.asked.onEvent(event)
      }
    }
  }

  private failed(error: unknown): void {
    if (this.stopped || this.paused) return
    const known = error instanceof ApiError ? error : null
    const status = known?.status ?? 0
    if (status === 422 && this.lastId !== undefined) this.lastId = undefined
    else if (status === 401 || status === 403 || status === 404) {
      this.tell('refused', known)
      return
    }
    this.again(known ?? new ApiError(0, '', null))
  }

  private again(error: ApiError | null): void {
    if (this.stopped || this.paused) return
    if (error !== null) this.tell('lost', error)
    const wait = error === null ? CLOSED_MS : (WAIT_MS[Math.min(this.tries, WAIT_MS.length - 1)] ?? 1000)
    this.tries += error === null ? 0 : 1
    this.timer = setTimeout(() => void this.read(), wait)
  }

  private end(): void {
    this.stop()
    this.tell('over', null)
  }

  private tell(state: StreamState, error: ApiError | null): void {
    this.asked.onState?.(state, error)
  }
}
