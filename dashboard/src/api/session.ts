// What the page was told by the gateway, and who we are: a key or token, kept for this session of the browser only.

const root = document.documentElement

export const authMethods = (root.dataset.auth ?? '').split(' ').filter(Boolean)
export const keyHeader = root.dataset.keyHeader ?? 'X-API-Key'

const PLACE = 'pyoco.credential'

export type Credential = { kind: 'key' | 'jwt'; value: string }

type Listener = () => void
const listeners = new Set<Listener>()

export function credential(): Credential | null {
  try {
    const kept = sessionStorage.getItem(PLACE)
    return kept ? (JSON.parse(kept) as Credential) : null
  } catch {
    return null
  }
}

export function signIn(given: Credential): void {
  sessionStorage.setItem(PLACE, JSON.stringify(given))
  for (const tell of listeners) tell()
}

export function signOut(): void {
  sessionStorage.removeItem(PLACE)
  for (const tell of listeners) tell()
}

export function onCredential(listener: Listener): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

export function credentialHeaders(): Record<string, string> {
  const own = credential()
  if (own === null) return {}
  return own.kind === 'jwt' ? { Authorization: `Bearer ${own.value}` } : { [keyHeader]: own.value }
}
