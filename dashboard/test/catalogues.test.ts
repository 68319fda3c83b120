import { expect, test } from 'vitest'
import { en } from '../src/text/en'
import { ja } from '../src/text/ja'

const braces = (sentence: string) => [...sentence.matchAll(/\{\w+\}/g)].map(([found]) => found).sort()

test('every language has the same keys, and fills in the same values', () => {
  expect(Object.keys(ja).sort()).toEqual(Object.keys(en).sort())
  for (const key of Object.keys(en) as (keyof typeof en)[]) {
    expect(braces(ja[key]), key).toEqual(braces(en[key]))
    expect(ja[key].trim(), key).not.toBe('')
  }
})
