/// <reference types="vite/client" />
import { expect, test } from 'vitest'
import { en } from '../src/text/en'

const SOURCES = import.meta.glob<string>(['../src/**/*.{ts,tsx}', '!../src/text/{en,ja}*', '!../src/**/*.d.ts'], {
  query: '?raw',
  import: 'default',
  eager: true,
})
/** Keys that are put together: `status.${one}` says that any of that family may be meant. */
const FAMILY = /`([a-z][\w.]*)\.\$\{/g

test('every word that the catalogue has is said somewhere', () => {
  const text = Object.values(SOURCES).join('\n')
  expect(Object.keys(SOURCES).length).toBeGreaterThan(50)
  const families = [...new Set([...text.matchAll(FAMILY)].map((found) => `${found[1]}.`))]
  const unsaid = Object.keys(en).filter(
    (key) => !text.includes(`'${key}'`) && !families.some((family) => key.startsWith(family)),
  )
  expect(unsaid).toEqual([])
})
