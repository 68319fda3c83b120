// Something that the reader asked for once: not sent twice while it is under way, and what went wrong is kept for the form.
import { useCallback, useEffect, useRef, useState } from 'react'

export type Doing = { busy: boolean; error: unknown; run: (act: () => Promise<unknown>) => void }

export function useDoing(): Doing {
  const [state, setState] = useState<{ busy: boolean; error: unknown }>({ busy: false, error: null })
  // A second click may come before the button is drawn as disabled.
  const under = useRef(false)
  const shown = useRef(true)
  useEffect(() => {
    shown.current = true
    return () => {
      shown.current = false
    }
  }, [])
  const run = useCallback((act: () => Promise<unknown>) => {
    if (under.current) return
    under.current = true
    setState({ busy: true, error: null })
    const end = (error: unknown) => {
      under.current = false
      if (shown.current) setState({ busy: false, error })
    }
    act().then(() => end(null), end)
  }, [])
  return { ...state, run }
}

/** A key for a request that must have one effect: the same for the same words, so that sending them again is no second run. */
export function useKeyOf(): (words: unknown) => Record<string, string> {
  const last = useRef<{ words: string; key: string } | null>(null)
  return useCallback((words: unknown) => {
    const text = JSON.stringify(words)
    if (last.current?.words !== text) last.current = { words: text, key: newKey() }
    return { 'Idempotency-Key': last.current.key }
  }, [])
}

/** `randomUUID` is there on https and on this machine only. */
export function newKey(): string {
  if (crypto.randomUUID) return crypto.randomUUID()
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
