// A gateway that does what a test says: connections that it feeds and ends, answers that it gives. Time stands still
// until the test lets it pass.
import { vi } from 'vitest'

/** As it is before a test stops the time. */
const realTimeout = setTimeout

export type Query = Record<string, string>

export class Connection {
  private text: ReadableStreamDefaultController<Uint8Array> | undefined
  readonly body: ReadableStream<Uint8Array>
  /** Whether the page has ended it. */
  left = false
  /** As the gateway does it, unless a test stops it. */
  private comments = setInterval(() => this.comment(), 5_000)

  constructor(
    readonly topics: string[],
    readonly places: string[],
    readonly headers: Record<string, string>,
    signal: AbortSignal,
  ) {
    this.body = new ReadableStream({
      start: (controller) => {
        this.text = controller
      },
    })
    signal.addEventListener('abort', () => {
      this.left = true
      this.fallSilent()
      this.text?.error(new DOMException('aborted', 'AbortError'))
    })
  }

  bytes(some: Uint8Array): void {
    this.text?.enqueue(some)
  }

  say(topic: string, event: string, data: unknown, place?: string): void {
    const id = place === undefined ? '' : `id: ${topic}~${place}\n`
    this.bytes(new TextEncoder().encode(`event: ${topic}\n${id}data: ${JSON.stringify({ event, data })}\n\n`))
  }

  comment(): void {
    this.bytes(new TextEncoder().encode(': keep-alive\n\n'))
  }

  fallSilent(): void {
    clearInterval(this.comments)
  }

  end(): void {
    this.fallSilent()
    this.text?.close()
  }

  breakOff(): void {
    this.fallSilent()
    this.text?.error(new TypeError('network error'))
  }
}

export class Gateway {
  connections: Connection[] = []
  /** What was asked for besides, in order. */
  asked: { path: string; query: Query }[] = []
  /** How a connection is refused; `away` when there is no connection at all, `silent`: one without an answer. */
  refuses: { status: number; headers?: Record<string, string> } | 'away' | 'silent' | null = null
  answer: (path: string, query: Query) => unknown = () => ({})

  get last(): Connection {
    return this.connections.at(-1) as Connection
  }

  fetch = async (address: string, init: RequestInit): Promise<Response> => {
    const { pathname, searchParams } = new URL(address, 'http://gateway/')
    if (pathname !== '/stream') return this.read(pathname, Object.fromEntries(searchParams), init.signal ?? undefined)
    const headers = init.headers as Record<string, string>
    const [topics, places] = [searchParams.getAll('topic'), searchParams.getAll('after')]
    const one = new Connection(topics, places, headers, init.signal as AbortSignal)
    this.connections.push(one)
    if (this.refuses === 'away') throw new TypeError('Failed to fetch')
    if (this.refuses === 'silent') return new Promise(() => undefined)
    return this.refuses ? refused(this.refuses.status, this.refuses.headers) : new Response(one.body)
  }

  private async read(path: string, query: Query, signal: AbortSignal | undefined): Promise<Response> {
    this.asked.push({ path, query })
    const left = new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')))
    })
    const body = await Promise.race([this.answer(path, query), left])
    return body instanceof Response ? body : Response.json(body)
  }
}

export function refused(status: number, headers: Record<string, string> = {}): Response {
  return Response.json({ detail: `no: ${status}` }, { status, headers })
}

/** An answer that is given later. */
export function later<T>(): { answer: Promise<T>; give: (value: T) => void } {
  let give: (value: T) => void = () => undefined
  const answer = new Promise<T>((resolve) => {
    give = resolve
  })
  return { answer, give }
}

/** Modules that are imported after this are new, and talk to the gateway that it returns. */
export function begin(): Gateway {
  vi.resetModules()
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance', 'Date'] })
  // Half of each pause is chance; here it is always the longest.
  vi.spyOn(Math, 'random').mockReturnValue(1)
  const gateway = new Gateway()
  vi.stubGlobal('fetch', gateway.fetch)
  vi.stubGlobal('requestAnimationFrame', (act: () => void) => setTimeout(act, 16))
  return gateway
}

export function finish(): void {
  vi.clearAllTimers()
  vi.useRealTimers()
  vi.unstubAllGlobals()
  vi.restoreAllMocks()
}

/** So much time passes, and everything that was said in it has arrived. */
export async function pass(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms)
  for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => realTimeout(resolve, 0))
  await vi.advanceTimersByTimeAsync(0)
}
