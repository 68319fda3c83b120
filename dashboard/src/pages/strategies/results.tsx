// What the last checks of a strategy came to.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { StrategyDetail } from '../../api/recheck'
import { Dialog } from '../../parts/dialog'
import { Reading } from '../../parts/reading'
import { Ago } from '../../parts/time'
import { instant } from '../../text/format'
import { t } from '../../text/text'
import { Health } from './health'

export function Results({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  const detail = useQuery({
    queryKey: ['strategy', id],
    queryFn: () => get<StrategyDetail>(`/gui/strategies/${part(id)}`),
  })
  return (
    <Dialog title={`${id} · ${t('strategies.results')}`} onClose={onClose} wide>
      <Reading query={detail} />
      {detail.data?.recent_results.length === 0 && <p className="faint-text">{t('strategies.noResults')}</p>}
      {detail.data && detail.data.recent_results.length > 0 && (
        <table>
          <thead>
            <tr>
              <th scope="col">{t('strategies.checked')}</th>
              <th scope="col">{t('strategies.health')}</th>
              <th scope="col" className="number">
                winrate
              </th>
              <th scope="col" className="number">
                sharpe
              </th>
              <th scope="col" className="number">
                max_dd
              </th>
            </tr>
          </thead>
          <tbody>
            {detail.data.recent_results.map((one) => (
              <tr key={one.request_id + one.completed_at}>
                <td>
                  <Ago at={instant(one.completed_at)} />
                </td>
                <td>
                  <Health health={one.health} />
                </td>
                <td className="number">{one.metrics.winrate ?? '–'}</td>
                <td className="number">{one.metrics.sharpe ?? '–'}</td>
                <td className="number">{one.metrics.max_dd ?? '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Dialog>
  )
}
