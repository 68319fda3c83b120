import { afterEach, expect, test } from 'vitest'
import { cronInWords } from '../src/text/cron'
import { setLanguage } from '../src/text/text'

afterEach(() => setLanguage('en'))

const WORDS: [string, string | null, string | null][] = [
  ['* * * * *', 'Every minute', '毎分'],
  ['*/15 * * * *', 'Every 15 minutes', '15 分ごと'],
  [
    '*/15 9-17 * * mon-fri',
    'Every 15 minutes from 09:00 to 17:45, Monday to Friday',
    '月曜日から金曜日 09:00 から 17:45 まで 15 分ごと',
  ],
  ['5 * * * *', 'At minute 5 of every hour', '毎時 5 分'],
  ['5,35 * * * *', 'At minute 5 and 35 of every hour', '毎時 5、35 分'],
  ['0 */2 * * *', 'Every 2 hours at minute 0', '2 時間ごとの 0 分'],
  [
    '0 9-17 * * 1-5',
    'At minute 0 of every hour from 09:00 to 17:00, Monday to Friday',
    '月曜日から金曜日 09:00 から 17:00 までの毎時 0 分',
  ],
  ['0 3 * * *', 'At 03:00 every day', '毎日 03:00'],
  ['30 8 * * mon-fri', 'At 08:30, Monday to Friday', '月曜日から金曜日 08:30'],
  ['0 8,20 * * sun', 'At 08:00 and 20:00, Sunday', '日曜日 08:00、20:00'],
  ['0 0 1 * *', 'At 00:00, on day 1 of the month', '毎月 1 日 00:00'],
  ['0 0 1,15 * *', 'At 00:00, on day 1 and 15 of the month', '毎月 1、15 日 00:00'],
  ['0 0 1 jan,jul *', 'At 00:00, on January 1 and July 1', '毎年 1月1日、7月1日 00:00'],
  ['0 6 * 12 *', 'At 06:00, in December', '12月 06:00'],
  ['0 12 l * *', 'At 12:00, on the last day of the month', '毎月末日 12:00'],
  ['0 9 1 * 1', 'At 09:00, on day 1 of the month or Monday', '毎月 1 日または月曜日 09:00'],
  // Not in usual words, or not a cron at all.
  ['*/7 * * * *', null, null],
  ['0 9 * * 1#1', null, null],
  ['0 0,1,2,4,6,8,10 * * *', null, null],
  ['61 * * * *', null, null],
  ['0 3 * *', null, null],
  ['often', null, null],
]

test.each(WORDS)('%s', (cron, english, japanese) => {
  setLanguage('en')
  expect(cronInWords(cron)).toBe(english)
  setLanguage('ja')
  expect(cronInWords(cron)).toBe(japanese)
})
