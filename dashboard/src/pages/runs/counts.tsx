// How many runs there are in each status. Each is a filter, and several can be chosen.
import type { JSX } from 'react'
import type { Counts as Sums } from '../../api/types'
import { useCell } from '../../live/cell'
import { counts, waiting } from '../../live/news'
import { rewrite } from '../../live/place'
import { Shape, toneOf } from '../../parts/status'
import { number } from '../../text/format'
import { type Key, t } from '../../text/text'
import { CHOICES, statusesIn, toggled } from './filters'

export function Counts({ status }: { status: string }): JSX.Element {
  const sums = useCell(counts)
  const waits = useCell(waiting)
  const chosen = statusesIn(status)
  const all = sums ? Object.values(sums).reduce((sum, one) => sum + one, 0) : 0
  return (
    <div className="counts" role="group" aria-label={t('runs.status')}>
      <button type="button" aria-pressed={status === ''} onClick={() => rewrite({ status: null })}>
        <span>{t('runs.all')}</span>
        <b>{sums ? number(all) : '–'}</b>
      </button>
      {CHOICES.map((one) => {
        const shown = one === 'EXECUTING' ? 'RUNNING' : one
        return (
          <button
            key={one}
            type="button"
            className={`tone-${toneOf(shown)}`}
            data-count={one}
            aria-pressed={
              chosen.includes(one) || (chosen.includes('RUNNING') && (shown === 'RUNNING' || one === 'WAITING'))
            }
            onClick={() => rewrite({ status: toggled(status, one) })}
          >
            <Shape status={shown} />
            <span>{t(`status.${shown}` as Key)}</span>
            <b>{sums ? number(sumOf(one, sums, waits)) : '–'}</b>
          </button>
        )
      })}
    </div>
  )
}

/** Runs that wait are RUNNING in the sums of the API, and counted apart here. */
function sumOf(one: (typeof CHOICES)[number], sums: Sums, waits: number): number {
  if (one === 'WAITING') return waits
  return one === 'EXECUTING' ? Math.max(0, sums.RUNNING - waits) : sums[one]
}
