// What the page was told by the gateway, and who we are: a key or token, kept for this session of the browser, or on
// this device if the reader chose that.

const root = document.documentElement

export const authMethods = (root.dataset.auth ?? '').split(' ').filter(Boolean)
export const keyHeader = root.dataset.keyHeader ?? 'X-API-Key'

/** Of the gateway that this page came from. */
export const gatewayVersion = document.body?.dataset.version ?? ''

const PLACE = 'pyoco.credential'

export type Credential = { kind: 'key' | 'jwt'; value: string }

// Other tabs of the same browser: a new one takes the credential over from one that is open, so that it is entered
// once and still not stored beyond the session. A tab that signs out signs the others out.
type Said = { asks: true } | { now: Credential | null }
const others = authMethods.length && typeof BroadcastChannel === 'function' ? new BroadcastChannel(PLACE) : null
others?.addEventListener('message', ({ data }: MessageEvent<Said>) => {
  if (!('asks' in data)) take(data.now)
  else if (credential()) others.postMessage({ now: credential() } satisfies Said)
})

type Listener = () => void
const listeners = new Set<Listener>()

export function credential(): Credential | null {
  try {
    const kept = sessionStorage.getItem(PLACE) ?? localStorage.getItem(PLACE)
    return kept ? (JSON.parse(kept) as Credential) : null
  } catch {
    return null
  }
}

/** `remember`: also for sessions to come, until the user signs out. */
export function signIn(given: Credential, remember = false): void {
  take(given)
  if (remember) localStorage.setItem(PLACE, JSON.stringify(given))
  else localStorage.removeItem(PLACE)
  others?.postMessage({ now: given } satisfies Said)
}

export function signOut(): void {
  take(null)
  others?.postMessage({ now: null } satisfies Said)
}

/** Without one of its own, this tab asks the others. */
export function askOtherTabs(): void {
  if (credential() === null) others?.postMessage({ asks: true } satisfies Said)
}

function take(given: Credential | null): void {
  if (JSON.stringify(given) === JSON.stringify(credential())) return
  if (given === null) {
    sessionStorage.removeItem(PLACE)
    localStorage.removeItem(PLACE)
  } else sessionStorage.setItem(PLACE, JSON.stringify(given))
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
