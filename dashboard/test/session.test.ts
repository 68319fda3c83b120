import { beforeEach, expect, test, vi } from 'vitest'

class Kept {
  items = new Map<string, string>()
  getItem = (name: string) => this.items.get(name) ?? null
  setItem = (name: string, value: string) => void this.items.set(name, value)
  removeItem = (name: string) => void this.items.delete(name)
}

const KEY = { kind: 'key', value: 'pk_1' } as const
let device: Kept
let session: Kept

/** The module as a tab loads it. */
async function aTab(): Promise<typeof import('../src/api/session')> {
  session = new Kept()
  vi.stubGlobal('sessionStorage', session)
  vi.stubGlobal('localStorage', device)
  vi.resetModules()
  return import('../src/api/session')
}

beforeEach(() => {
  device = new Kept()
})

test('a key is kept for the session only, unless the reader chose otherwise', async () => {
  const { signIn, credential } = await aTab()
  signIn(KEY)
  expect(credential()).toEqual(KEY)
  expect(device.items.size).toBe(0)
  expect((await aTab()).credential()).toBeNull()
})

test('a remembered key is there in a new session, and signing out forgets it', async () => {
  const first = await aTab()
  first.signIn(KEY, true)
  const second = await aTab()
  expect(second.credential()).toEqual(KEY)
  second.signOut()
  expect(device.items.size).toBe(0)
  expect((await aTab()).credential()).toBeNull()
})

test('signing in without the choice forgets a key that was remembered before', async () => {
  const { signIn } = await aTab()
  signIn(KEY, true)
  signIn({ kind: 'key', value: 'pk_2' })
  expect(device.items.size).toBe(0)
})
