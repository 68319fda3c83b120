// The one connection that everything live comes over: pages name topics, come and go, and each goes on at its place.
//
// Browsers allow few connections to one place. So a page has one, whatever it looks at; and a tab in the background
// gives it back after a while, and goes on without a gap when it is looked at again.
import { PAUSE_MAX_MS } from './backoff'
import { ApiError, ask, forgetFailures, noteAnswer, noteFailure, repeatMs } from './client'
import { onCredential } from './session'
import { EventParser } from './sse'

export type StreamState = 'connecting' | 'open' | 'lost' | 'refused' | 'over'

export type Followed = {
  /** `runs`, `run:<id>`, `events:<id>`, `log:<id>`, `workers`, `lists`; followed once at a time. */
  topic: string
  after?: string
  onEvent: (name: string, data: unknown) => void
  onState?: (state: StreamState, error: ApiError | null) => void
  /** Its place was given up: what was told until now is told again, or not at all. */
  onAnew?: () => void
}

const PLACE = '/stream'
const HIDDEN_MS = 20_000
// After the ordinary end of a connection that lasted.
const CLOSED_MS = 250
// One that ends sooner than this has failed, and is repeated with the pauses of a failure.
const LASTED_MS = 5000
// Pages change several topics at once.
const CHANGED_MS = 25
const STREAM_SEC = 600
// The gateway sends something every five seconds. After this the connection is no good, although it is still open.
const SILENT_MS = 12_000

/** Until the returned function is called, or the server says that there is no more. */
export function follow(asked: Followed): () => void {
  const follower: Follower = { ...asked, told: null, anew: false }
  line.add(follower)
  return () => line.remove(follower)
}

/** The reader asks for it, or the network is back: at once. */
export function reconnect(): void {
  forgetFailures()
  line.reconnect()
}

/** `anew`: it had a place, and begins without one. */
type Follower = Followed & { told: StreamState | null; anew: boolean }
type Said = { event: string; data: unknown }
type Refusal = { status: number; message: string }

class Line {
  private followers = new Map<string, Follower>()
  private abort = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined
  private hiding: ReturnType<typeof setTimeout> | undefined
  /** Since when connections are answered, though topics come and go. */
  private openSince: number | null = null
  private paused = false
  private silence: ReturnType<typeof setTimeout> | undefined

  constructor() {
    document.addEventListener('visibilitychange', this.seen)
    onCredential(() => {
      for (const one of this.followers.values()) {
        giveUpPlace(one)
        one.told = null
      }
      this.again(0)
    })
    globalThis.addEventListener?.('online', reconnect)
  }

  reconnect(): void {
    this.again(0)
  }

  add(follower: Follower): void {
    this.followers.set(follower.topic, follower)
    this.again(CHANGED_MS)
  }

  remove(follower: Follower): void {
    if (this.followers.get(follower.topic) !== follower) return
    this.followers.delete(follower.topic)
    this.again(CHANGED_MS)
  }

  private seen = (): void => {
    clearTimeout(this.hiding)
    if (document.hidden) {
      this.hiding = setTimeout(() => {
        this.paused = true
        this.leave()
      }, HIDDEN_MS)
    } else if (this.paused) {
      this.paused = false
      void this.read()
    }
  }

  private again(wait: number): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => void this.read(), wait)
  }

  private async read(): Promise<void> {
    clearTimeout(this.timer)
    this.leave()
    if (this.paused || this.followers.size === 0) return
    this.abort = new AbortController()
    const { signal } = this.abort
    this.noteLasting()
    this.watch(signal)
    const followers = [...this.followers.values()]
    for (const one of followers) if (one.told === null) tell(one, 'connecting', null)
    try {
      const answer = await ask(address(followers), { signal, stays: true })
      for (const one of followers) opened(one)
      this.openSince ??= performance.now()
      this.watch(signal)
      await this.take(answer.body as ReadableStream<Uint8Array>, new Set(followers), signal)
      if (!signal.aborted) this.closed()
    } catch (error) {
      if (!signal.aborted) this.broke(error)
    }
  }

  private leave(): void {
    clearTimeout(this.silence)
    this.abort.abort()
  }

  /** From now on: a network or a gateway that is gone does not always close the connection. */
  private watch(signal: AbortSignal): void {
    clearTimeout(this.silence)
    this.silence = setTimeout(() => {
      if (signal.aborted) return
      this.leave()
      this.broke(null)
    }, SILENT_MS)
  }

  /** Whether it was good for a while: then what failed before does not count any more. */
  private noteLasting(): boolean {
    const lasted = this.openSince !== null && performance.now() - this.openSince >= LASTED_MS
    if (lasted) noteAnswer(PLACE)
    return lasted
  }

  private closed(): void {
    clearTimeout(this.silence)
    if (this.noteLasting()) {
      this.openSince = null
      this.again(CLOSED_MS)
    } else this.failed(noteFailure(PLACE, new ApiError(0, '', null)))
  }

  private broke(error: unknown): void {
    this.noteLasting()
    this.failed(error instanceof ApiError ? error : noteFailure(PLACE, new ApiError(0, '', null)))
  }

  /** `asking`: whoever has named a topic since then is told by the next connection, from where they want it. */
  private async take(body: ReadableStream<Uint8Array>, asking: Set<Follower>, signal: AbortSignal): Promise<void> {
    const parser = new EventParser()
    const reader = body
      .pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
      .getReader()
    for (;;) {
      const { done, value } = await reader.read()
      if (done || signal.aborted) return
      this.watch(signal)
      for (const { event: topic, data, id } of parser.take(value)) {
        const follower = this.followers.get(topic)
        if (follower && asking.has(follower)) this.hand(follower, JSON.parse(data) as Said, id)
      }
    }
  }

  private hand(follower: Follower, said: Said, id: string | undefined): void {
    if (id !== undefined) follower.after = id.slice(follower.topic.length + 1)
    if (said.event === 'over') this.end(follower, 'over', null)
    else if (said.event === 'refused') this.refuse(follower, said.data as Refusal)
    else follower.onEvent(said.event, said.data)
  }

  /** A place that is of no use any more is given up; anything else stays refused. */
  private refuse(follower: Follower, { status, message }: Refusal): void {
    if (status === 422 && follower.after !== undefined) {
      giveUpPlace(follower)
      this.again(CHANGED_MS)
    } else this.end(follower, 'refused', new ApiError(status, message, null))
  }

  private end(follower: Follower, state: StreamState, error: ApiError | null): void {
    this.followers.delete(follower.topic)
    tell(follower, state, error)
  }

  private failed(error: ApiError): void {
    this.openSince = null
    clearTimeout(this.silence)
    const refused = error.status === 401 || error.status === 403
    for (const one of this.followers.values()) tell(one, refused ? 'refused' : 'lost', error)
    // Who signs in begins again. A gateway that is away, or too old to know a topic, is asked again.
    if (!refused) this.again(repeatMs(error) ?? PAUSE_MAX_MS)
  }
}

function giveUpPlace(follower: Follower): void {
  follower.anew ||= follower.after !== undefined
  follower.after = undefined
}

function opened(follower: Follower): void {
  tell(follower, 'open', null)
  if (!follower.anew) return
  follower.anew = false
  follower.onAnew?.()
}

function tell(follower: Follower, state: StreamState, error: ApiError | null): void {
  if (follower.told === state && state !== 'lost') return
  follower.told = state
  follower.onState?.(state, error)
}

function address(followers: Follower[]): string {
  const words = new URLSearchParams({ timeout_sec: String(STREAM_SEC) })
  for (const { topic, after } of followers) {
    words.append('topic', topic)
    if (after !== undefined) words.append('after', `${topic}~${after}`)
  }
  return `/stream?${words.toString()}`
}

const line = new Line()
