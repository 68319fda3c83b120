import { expect, test } from 'vitest'
import { whenGiven, whenToBegin } from '../src/pages/schedules/when'

test('only what says when is given, in the words of the API', () => {
  const typed = { ...whenToBegin(), cron: '30 8 * * *', zone: 'Asia/Tokyo', seconds: '90', at: '2100-01-31T08:00:00' }
  expect(whenGiven({ ...typed, kind: 'cron' })).toEqual({ cron: '30 8 * * *', timezone: 'Asia/Tokyo' })
  expect(whenGiven({ ...typed, kind: 'cron', zone: '' })).toEqual({ cron: '30 8 * * *' })
  expect(whenGiven({ ...typed, kind: 'interval' })).toEqual({ interval_seconds: 90 })
  expect(whenGiven({ ...typed, kind: 'once' })).toEqual({ run_at: new Date('2100-01-31T08:00:00').toISOString() })
})
