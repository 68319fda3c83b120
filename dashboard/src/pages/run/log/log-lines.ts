// The lines of a log: read from its beginning in pages, then followed; kept up to a bound. No React.
import { get, isRefusal, part } from '../../../api/client'
import { follow } from '../../../api/stream'
import { Cell } from '../../../live/cell'

export type Line = {
  seq: number
  timestamp: string
  message: string
  task?: string | null
  stream?: string | null
  level?: string | null
  attempt?: number | null
}
type PageOfLines = { entries: Line[]; next_token: string; complete: boolean; truncated: boolean }

const PAGE = 5000
/** More than anybody reads; what is beyond can be downloaded. */
const KEPT_MAX = 200_000

export type LogShown = { lines: Line[]; dropped: number; loading: boolean; over: boolean; cut: boolean; error: unknown }

/** What follows from an event that is no line. */
const SAID: Record<string, Partial<LogShown>> = { truncated: { cut: true }, end: { over: true } }

export class LogLines {
  readonly shown = new Cell<LogShown>({ lines: [], dropped: 0, loading: true, over: false, cut: false, error: null })
  private lines: Line[] = []
  private dropped = 0
  private leave: (() => void) | null = null
  private token: string | undefined

  constructor(private readonly id: string) {}

  /** From its beginning, whatever was read before. */
  start(): () => void {
    const abort = new AbortController()
    this.token = undefined
    this.lines = []
    this.dropped = 0
    void this.read(abort.signal)
    return () => {
      abort.abort()
      this.leave?.()
    }
  }

  private async read(signal: AbortSignal): Promise<void> {
    try {
      for (;;) {
        const page = await get<PageOfLines>(
          `/runs/${part(this.id)}/logs`,
          { limit: PAGE, since_token: this.token },
          signal,
        )
        if (signal.aborted) return
        this.token = page.next_token
        this.add(page.entries)
        this.show({ cut: page.truncated, loading: page.entries.length === PAGE, over: page.complete })
        if (page.complete) return
        if (page.entries.length < PAGE) break
      }
    } catch (error) {
      if (signal.aborted) return
      if (isRefusal(error)) return this.show({ loading: false, error })
    }
    // What could not be answered now comes with the rest.
    this.follow()
  }

  private follow(): void {
    this.leave = follow({
      topic: `log:${this.id}`,
      after: this.token,
      onEvent: (event, data) => {
        if (event === 'logEntry') this.add([data as Line])
        if (event === 'reset') this.beginAgain()
        else this.show({ loading: false, ...SAID[event] })
      },
      onAnew: () => this.beginAgain(),
      onState: (state, error) => {
        if (state === 'over') this.show({ loading: false, over: true })
        else if (state === 'refused') this.show({ loading: false, error })
        else if (state === 'open') this.show({ error: null })
      },
    })
  }

  /** Lines that are shown may be lost, or of another log: all there are now follow from the first. */
  private beginAgain(): void {
    this.lines = []
    this.dropped = 0
    this.show({ cut: false })
  }

  private add(more: Line[]): void {
    for (const line of more) this.lines.push(line)
    const over = this.lines.length - KEPT_MAX
    if (over > 0) {
      this.lines.splice(0, over)
      this.dropped += over
    }
  }

  private show(some: Partial<LogShown>): void {
    this.shown.set({ ...this.shown.get(), ...some, lines: this.lines, dropped: this.dropped })
  }
}
