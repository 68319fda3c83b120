// How many runs stand in each status; each is a filter.
import type { JSX } from 'react'
import { STATUSES } from '../../api/types'
import { useCell } from '../../live/cell'
import { counts } from '../../live/news'
import { rewrite } from '../../live/place'
import { Shape, toneOf } from '../../parts/status'
import { number } from '../../text/format'
import { type Key, t } from '../../text/text'

export function Counts({ status }: { status: string }): JSX.Element {
  const sums = useCell(counts)
  const all = sums ? Object.values(sums).reduce((sum, one) => sum + one, 0) : 0
  return (
    <div className="counts" role="group" aria-label={t('runs.status')}>
      <button type="button" aria-pressed={status === ''} onClick={() => rewrite({ status: null })}>
        <span>{t('runs.all')}</span>
        <b>{sums ? number(all) : '–'}</b>
      </button>
      {STATUSES.map((one) => (
        <button
          key={one}
          type="button"
          className={`tone-${toneOf(one)}`}
          aria-pressed={status === one}
          onClick={() => rewrite({ status: status === one ? null : one })}
        >
          <Shape status={one} />
          <span>{t(`status.${one}` as Key)}</span>
          <b>{sums ? number(sums[one]) : '–'}</b>
        </button>
      ))}
    </div>
  )
}
