// A value as indented JSON, with its end cut off where it would be too long to read.
import type { JSX } from 'react'

const CHARS_MAX = 20_000

export function Json({ value, label }: { value: unknown; label: string }): JSX.Element {
  const text = JSON.stringify(value, null, 2) ?? 'null'
  const shown = text.length > CHARS_MAX ? `${text.slice(0, CHARS_MAX)}\n…` : text
  return (
    <pre className="json" tabIndex={0} role="group" aria-label={label}>
      {shown}
    </pre>
  )
}
