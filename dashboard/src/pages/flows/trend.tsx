// How the latest runs of a flow went: their durations as bars that lead to the runs, and what they amount to.
import { type JSX, useMemo } from 'react'
import { part } from '../../api/client'
import type { RunSummary } from '../../api/types'
import { useNow } from '../../live/now'
import { toneOf } from '../../parts/status'
import { exact, span } from '../../text/format'
import { t, word } from '../../text/text'
import { standing } from '../runs/filters'
import { trendOf } from './figures'

const EMPTY = '–'

export function TrendCard({ runs }: { runs: RunSummary[] }): JSX.Element | null {
  const hasOpen = runs.some((run) => run.end_time === null)
  const now = useNow()
  // Of runs that have ended nothing changes with the clock.
  const until = hasOpen ? now : 0
  const trend = useMemo(() => trendOf(runs, until), [runs, until])
  if (runs.length === 0) return null
  const { success, median, slow, bars, most } = trend
  const facts: [string, string, string?][] = [
    [
      t('flow.rate'),
      success ? `${success.percent} %` : EMPTY,
      success ? t('flow.rateOf', { good: success.good, judged: success.judged }) : undefined,
    ],
    [t('flow.median'), median === null ? EMPTY : span(median)],
    [t('flow.slow'), slow === null ? EMPTY : span(slow)],
  ]
  return (
    <section className="card trend-card" aria-label={t('flow.trend')}>
      <dl className="figures">
        {facts.map(([name, value, more]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <b>{value}</b>
              {more && <small>{more}</small>}
            </dd>
          </div>
        ))}
      </dl>
      <div className="trend-chart">
        <div className="trend-scale" aria-hidden="true">
          <span>{span(most)}</span>
          <span>0</span>
        </div>
        <ol className="trend-bars" aria-label={t('flow.trendLabel', { n: bars.length })}>
          {bars.map(({ run, seconds, share }) => {
            const said = `${word(`status.${standing(run)}`, run.status)}, ${span(seconds)}, ${exact(run.submitted_at)}`
            return (
              <li key={run.run_id}>
                <a href={`#/runs/${part(run.run_id)}`} title={said} aria-label={said} data-bar={run.status}>
                  <span
                    className={`tone-${toneOf(standing(run))}`}
                    style={{ height: `max(4px, ${(share * 100).toFixed(1)}%)` }}
                  />
                </a>
              </li>
            )
          })}
        </ol>
        <p className="hint">{t('flow.trendHint')}</p>
      </div>
    </section>
  )
}
