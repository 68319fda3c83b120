// The last hour, minute by minute: read once, then kept by the stream.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get } from '../../api/client'
import type { Minute, Stats } from '../../api/types'
import { useCell } from '../../live/cell'
import { minute } from '../../live/news'
import { Bars } from '../../parts/bars'
import { clock, number } from '../../text/format'
import { t } from '../../text/text'

const MINUTE = 60
const MINUTES = 60

export function Hour(): JSX.Element {
  const stats = useQuery({ queryKey: ['stats'], queryFn: () => get<Stats>('/runs/stats') })
  const current = useCell(minute)
  const minutes = withCurrent(stats.data?.minutes ?? [], current)
  const sum = (name: 'completed' | 'failed' | 'cancelled') => number(minutes.reduce((all, one) => all + one[name], 0))
  const label = t('runs.hour', { completed: sum('completed'), failed: sum('failed'), cancelled: sum('cancelled') })
  const bars = minutes.map((one) => ({
    key: one.at,
    title: `${clock(one.at)} · ${one.completed} / ${one.failed} / ${one.cancelled}`,
    parts: [
      { tone: 'good', value: one.completed },
      { tone: 'bad', value: one.failed },
      { tone: 'quiet', value: one.cancelled },
    ],
  }))
  return (
    <figure className="hour">
      <Bars bars={bars} label={label} />
      <figcaption>{label}</figcaption>
    </figure>
  )
}

/** The hour up to now, with the minute that the stream told last in its place. */
export function withCurrent(minutes: Minute[], current: Minute | null): Minute[] {
  if (current === null) return minutes
  const known = new Map(minutes.map((one) => [one.at, one]))
  known.set(current.at, current)
  return Array.from({ length: MINUTES }, (_, number) => {
    const at = current.at - (MINUTES - 1 - number) * MINUTE
    return known.get(at) ?? { at, submitted: 0, completed: 0, failed: 0, cancelled: 0 }
  })
}
