// How well a strategy does: a shape, a word, a colour.
import type { JSX } from 'react'
import type { Health as Kind } from '../../api/recheck'
import { Shape } from '../../parts/status'
import { t } from '../../text/text'

const LOOKS: Record<Kind, [shape: string, tone: string]> = {
  healthy: ['COMPLETED', 'good'],
  degraded: ['FAILED', 'bad'],
  unknown: ['PENDING', 'quiet'],
}

export function Health({ health }: { health: Kind | null }): JSX.Element {
  const [shape, tone] = LOOKS[health ?? 'unknown']
  return (
    <span className={`status tone-${tone}`}>
      <Shape status={shape} /> {t(`strategies.health.${health ?? 'unknown'}`)}
    </span>
  )
}
