import { expect, test } from 'vitest'
import { raisedIn } from '../src/pages/run/exception'

const FRAMES = 'Traceback (most recent call last):\n  File "flows.py", line 7, in report\n    raise error\n'

test('the type and the message are read from the end of a traceback', () => {
  expect(raisedIn(`${FRAMES}RuntimeError: no rows\n`)).toEqual({ type: 'RuntimeError', message: 'no rows' })
  expect(raisedIn(`${FRAMES}shop.errors.Late: two\n  lines: here`)).toEqual({
    type: 'shop.errors.Late',
    message: 'two\n  lines: here',
  })
  expect(raisedIn(`${FRAMES}KeyboardInterrupt`)).toEqual({ type: 'KeyboardInterrupt', message: '' })
})

test('of a chain the last exception counts, and another text has none', () => {
  const chain = `${FRAMES}KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n`
  expect(raisedIn(`${chain}${FRAMES}ValueError: b`)).toEqual({ type: 'ValueError', message: 'b' })
  expect(raisedIn('')).toBeNull()
  expect(raisedIn('something went wrong, twice')).toBeNull()
})
