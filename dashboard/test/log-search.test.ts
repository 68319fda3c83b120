import { afterEach, expect, test, vi } from 'vitest'
import './page'
import { searchLog } from '../src/pages/run/log/log-search'

afterEach(() => {
  vi.unstubAllGlobals()
  vi.useRealTimers()
})

const page = (seqs: number[], token: string, to_line: number, paused_by: string | null) =>
  new Response(
    JSON.stringify({
      entries: seqs.map((seq) => ({ seq })),
      next_token: token,
      complete: false,
      truncated: false,
      searched: { to_line, lines: 30, paused_by },
    }),
  )

function answering(...answers: Response[]): string[] {
  const asked: string[] = []
  vi.stubGlobal('fetch', async (address: string) => {
    asked.push(address)
    return answers.shift()
  })
  return asked
}

test('a search that pauses is asked to go on, and says how far it got', async () => {
  const asked = answering(page([3], 'a', 10, 'time'), page([], 'b', 20, 'bytes'), page([21, 30], 'c', 30, null))
  const pauses: unknown[] = []
  const found = await searchLog('r', 'x', new AbortController().signal, (...said) => pauses.push(said))
  expect(found).toEqual([3, 21, 30])
  expect(pauses).toEqual([
    [[3], 10, 30],
    [[3], 20, 30],
  ])
  expect(asked.map((address) => new URL(address, 'http://h').searchParams.get('since_token'))).toEqual([null, 'a', 'b'])
})

test('a gateway that knows no budget is asked once', async () => {
  const asked = answering(
    new Response(JSON.stringify({ entries: [{ seq: 1 }], next_token: 'a', complete: true, truncated: false })),
  )
  expect(await searchLog('r', 'x', new AbortController().signal, () => undefined)).toEqual([1])
  expect(asked.length).toBe(1)
})

test('where too many searches are under way it comes back', async () => {
  vi.useFakeTimers()
  const asked = answering(new Response('{"message":"too many"}', { status: 429 }), page([1], 'a', 30, null))
  const found = searchLog('r', 'x', new AbortController().signal, () => undefined)
  await vi.runAllTimersAsync()
  expect(await found).toEqual([1])
  expect(asked.length).toBe(2)
})
