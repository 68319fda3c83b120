// A search of a whole log on the server, which pauses after a while: it is asked to go on until all was searched.
import { ApiError, get, part } from '../../../api/client'

type Found = {
  entries: { seq: number }[]
  next_token: string
  searched?: { to_line: number; lines: number; paused_by: string | null }
}

export const FOUND_MAX = 5000
/** How often in a row the server may say that too many searches are under way. */
const RETRIES_MAX = 10
const RETRY_MS = 1000

/** The numbers of matching lines, at most FOUND_MAX. `onPause`: what was found so far, and how far the search got. */
export async function searchLog(
  id: string,
  text: string,
  signal: AbortSignal,
  onPause: (found: number[], toLine: number, lines: number) => void,
  task: string | null = null,
): Promise<number[]> {
  const found: number[] = []
  const wanted = { q: text, ...(task === null ? {} : { task }) }
  let token: string | undefined
  for (;;) {
    const page = await patiently(
      () =>
        get<Found>(
          `/runs/${part(id)}/logs`,
          { ...wanted, limit: FOUND_MAX - found.length, since_token: token },
          signal,
        ),
      signal,
    )
    for (const line of page.entries) found.push(line.seq)
    if (!page.searched?.paused_by || page.next_token === token || found.length >= FOUND_MAX) return found
    token = page.next_token
    onPause(found.slice(), page.searched.to_line, page.searched.lines)
  }
}

async function patiently<T>(ask: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await ask()
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 429 || tries >= RETRIES_MAX || signal.aborted) throw error
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
  }
}
