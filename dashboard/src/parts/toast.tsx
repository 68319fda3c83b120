// A sentence about what was just done, said once and read out by screen readers.
import { type JSX, useEffect } from 'react'
import { Cell, useCell } from '../live/cell'

const SHOWN_MS = 6000
const said = new Cell<{ text: string; wrong: boolean; number: number } | null>(null)
let number = 0

export function say(text: string, wrong = false): void {
  number += 1
  said.set({ text, wrong, number })
}

export function Toast(): JSX.Element {
  const current = useCell(said)
  useEffect(() => {
    if (!current) return
    const timer = setTimeout(() => said.set(null), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [current])
  return (
    <div className="toast-place" role="status" aria-live="polite">
      {current && <div className={`toast${current.wrong ? ' bad' : ''}`}>{current.text}</div>}
    </div>
  )
}
