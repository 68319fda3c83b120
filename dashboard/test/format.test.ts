import { expect, test } from 'vitest'
import { withCurrent } from '../src/pages/runs/hour'
import { ago, bytes, span } from '../src/text/format'
import { setLanguage, t } from '../src/text/text'

test('spans, instants and sizes are words of the language', () => {
  expect([0, 0.25, 2.34, 59, 200, 7500, 200_000].map(span)).toEqual([
    '0 s',
    '250 ms',
    '2.3 s',
    '59 s',
    '3 m 20 s',
    '2 h 5 m',
    '2 d 7 h',
  ])
  expect(ago(100, 280)).toBe('3m ago')
  expect([0, 1023, 1536, 5_000_000].map(bytes)).toEqual(['0 B', '1023 B', '1.5 KiB', '4.8 MiB'])
  setLanguage('ja')
  expect(ago(100, 280)).toBe('3分前')
  expect(span(200)).toBe('3分 20秒')
  expect(t('runs.selected', { n: 3 })).toBe('3 件選択中')
  setLanguage('en')
})

test('the hour ends with the minute that was told last', () => {
  const minute = (at: number, completed: number) => ({ at, submitted: 0, completed, failed: 0, cancelled: 0 })
  const shown = withCurrent([minute(6000, 1), minute(6060, 2)], minute(6120, 9))
  expect(shown).toHaveLength(60)
  expect(shown.slice(-3).map((one) => one.completed)).toEqual([1, 2, 9])
  expect(shown[0]?.at).toBe(6120 - 59 * 60)
})
