import { expect, test } from 'vitest'
import { Failures, PAUSE_MAX_MS, pauseMs, RETRY_AFTER_MAX_MS, retryAfterIn } from '../src/api/backoff'
import { ApiError, isRefusal, repeatMs } from '../src/api/client'

test('a pause doubles with each failure up to its limit, and half of it is chance', () => {
  expect([1, 2, 3, 4].map((failures) => pauseMs(failures, 0, 1))).toEqual([1000, 2000, 4000, 8000])
  expect([1, 2, 3, 4].map((failures) => pauseMs(failures, 0, 0))).toEqual([500, 1000, 2000, 4000])
  expect(pauseMs(1000, 0, 1)).toBe(PAUSE_MAX_MS)
})

test('it is never shorter than the server asks for, within reason', () => {
  expect(pauseMs(1, 12_000, 1)).toBe(12_000)
  expect(pauseMs(6, 12_000, 1)).toBe(PAUSE_MAX_MS)
  expect(pauseMs(1, 1e9, 1)).toBe(RETRY_AFTER_MAX_MS)
})

test('Retry-After is read as seconds and as a date', () => {
  const now = Date.parse('2026-01-02T03:04:05Z')
  expect(retryAfterIn('7', now)).toBe(7000)
  expect(retryAfterIn('Fri, 02 Jan 2026 03:04:25 GMT', now)).toBe(20_000)
  expect(retryAfterIn('Fri, 02 Jan 2026 03:04:00 GMT', now)).toBe(0)
  expect([null, '', 'soon', '-1'].map((header) => retryAfterIn(header, now))).toEqual([0, 0, 0, 0])
})

test('what failed is held back until its pause is over, and longer each time', () => {
  let now = 0
  const failures = new Failures(
    () => now,
    () => 1,
  )
  const error = new ApiError(500, 'broken', null)
  failures.failed('/runs', error)
  expect(failures.held('/runs')).toBe(error)
  expect(failures.held('/flows')).toBeUndefined()
  now = 1000
  expect(failures.held('/runs')).toBeUndefined()
  failures.failed('/runs', error)
  expect(failures.leftMs('/runs')).toBe(2000)
  failures.answered('/runs')
  expect(failures.held('/runs')).toBeUndefined()
})

test('not more failures are remembered than there is room for', () => {
  const failures = new Failures(
    () => 0,
    () => 1,
  )
  for (let number = 0; number < 1000; number += 1) failures.failed(`/runs/${number}`, new ApiError(500, '', null))
  expect(failures.held('/runs/0')).toBeUndefined()
  expect(failures.held('/runs/999')).toBeDefined()
})

test('a refusal is not repeated; what may be answered later is', () => {
  expect([400, 403, 404, 422].map((status) => repeatMs(new ApiError(status, '', null)))).toEqual([
    null,
    null,
    null,
    null,
  ])
  expect([0, 408, 429, 500, 503].map((status) => repeatMs(new ApiError(status, '', null)))).toEqual([0, 0, 0, 0, 0])
  expect(isRefusal(new ApiError(429, '', null))).toBe(false)
  expect(repeatMs(new Error('not an answer'))).toBeNull()
})
