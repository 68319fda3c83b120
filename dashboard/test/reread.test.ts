import { QueryClient, QueryObserver } from '@tanstack/react-query'
import { expect, test } from 'vitest'
import { forgetUnseen, reread } from '../src/live/reread'
import { later } from './gateway'

/** A part of the page that reads something: `answers` are given in order, and the last one from then on. */
function look(answers: Promise<string>[]) {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } })
  const reads = { count: 0 }
  const queryFn = () => answers[Math.min(reads.count++, answers.length - 1)] as Promise<string>
  const observer = new QueryObserver(queries, { queryKey: ['why', 'one', 'PENDING'], queryFn })
  const stop = observer.subscribe(() => undefined)
  return { queries, observer, reads, stop }
}

test('a change during the first read is not missed: what was asked before it is read again', async () => {
  const first = later<string>()
  const { queries, observer, reads, stop } = look([first.answer, Promise.resolve('new')])
  const done = Promise.all([reread(queries, ['why', 'one']), reread(queries, ['why', 'one'])])
  first.give('old')
  await done
  expect(observer.getCurrentResult().data).toBe('new')
  expect(reads.count).toBe(2)
  stop()
})

test('a later read that was asked before the change is given up', async () => {
  const second = later<string>()
  const { queries, observer, stop } = look([Promise.resolve('first'), second.answer, Promise.resolve('new')])
  await observer.refetch({ cancelRefetch: false })
  void observer.refetch()
  await reread(queries, ['why'])
  second.give('old')
  await second.answer
  expect(observer.getCurrentResult().data).toBe('new')
  stop()
})

test('after a first read that failed it is read again, too', async () => {
  const { queries, observer, stop } = look([Promise.reject(new Error('away')), Promise.resolve('new')])
  await reread(queries, ['why', 'one'])
  expect(observer.getCurrentResult().data).toBe('new')
  stop()
})

test('what was left before the change is read again when it is opened within its second', async () => {
  const { queries, reads, stop } = look([Promise.resolve('old'), Promise.resolve('new')])
  await queries.getQueryCache().getAll()[0]?.promise
  stop()
  await forgetUnseen(queries)
  expect(reads.count).toBe(1)
  expect(await opened(queries)).toBe('new')
})

test('so is what was being read when it was left', async () => {
  const first = later<string>()
  const { queries, stop } = look([first.answer, Promise.resolve('new')])
  stop()
  const forgotten = forgetUnseen(queries)
  first.give('old')
  await forgotten
  expect(await opened(queries)).toBe('new')
})

/** The same part of the page, opened again while its last answer counts as new. */
async function opened(queries: QueryClient): Promise<unknown> {
  const [query] = queries.getQueryCache().getAll()
  const observer = new QueryObserver(queries, { ...query?.options, queryKey: query?.queryKey ?? [], staleTime: 1000 })
  const stop = observer.subscribe(() => undefined)
  await query?.promise
  stop()
  return query?.state.data
}
