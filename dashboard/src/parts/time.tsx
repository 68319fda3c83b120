// Instants and spans that keep themselves up to date; the exact time is on hover.
import type { JSX } from 'react'
import { now as theTime, useNow } from '../live/now'
import { ago, exact, span } from '../text/format'

export function Ago({ at }: { at: number | null | undefined }): JSX.Element {
  const now = useNow()
  if (at === null || at === undefined) return <span className="faint-text">–</span>
  return (
    <time dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {ago(at, Math.max(now, at > now + 1 ? now : at))}
    </time>
  )
}

/** From then until now, or until it ended. */
export function Span({ from, to }: { from: number | null | undefined; to: number | null | undefined }): JSX.Element {
  if (from === null || from === undefined) return <span className="faint-text">–</span>
  if (to === null || to === undefined) return <Growing from={from} />
  return <span title={`${exact(from)} – ${exact(to)}`}>{span(Math.max(0, to - from))}</span>
}

function Growing({ from }: { from: number }): JSX.Element {
  useNow()
  return <span title={exact(from)}>{span(Math.max(0, theTime() - from))}</span>
}
