import { expect, test } from 'vitest'
import { paramsToBegin } from '../src/pages/flows/params'

const KNOWN = [
  { name: 'day', required: true, type: 'str' },
  { name: 'pages', required: false, default: 3 },
  { name: 'secret', required: false },
  { name: 'nothing', required: false, default: null },
]

test('a form begins with defaults, and over them what the last run was given', () => {
  expect(paramsToBegin(KNOWN, undefined)).toEqual({ pages: 3, nothing: null })
  expect(paramsToBegin(KNOWN, { day: 'Monday', pages: 5 })).toEqual({ day: 'Monday', pages: 5, nothing: null })
  expect(paramsToBegin(null, undefined)).toEqual({})
})
