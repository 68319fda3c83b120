// What the gateway counts, as operators' tools read it at `/metrics`; here with a search.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { ask } from '../../api/client'
import { Reading } from '../../parts/reading'
import { TableBox } from '../../parts/table-box'
import { number } from '../../text/format'
import { t } from '../../text/text'
import { type Family, familiesIn } from './metrics-text'

export function Metrics(): JSX.Element {
  const [sought, setSought] = useState('')
  const metrics = useQuery({
    queryKey: ['metrics'],
    queryFn: async () => familiesIn(await (await ask('/metrics')).text()),
  })
  const word = sought.trim().toLowerCase()
  const shown = (metrics.data ?? []).filter((family) => `${family.name} ${family.help}`.toLowerCase().includes(word))
  return (
    <section>
      <div className="card-head section-title">
        <h2>{t('system.metrics')}</h2>
        <input
          type="search"
          value={sought}
          placeholder={t('system.metrics.search')}
          aria-label={t('system.metrics.search')}
          onChange={(event) => setSought(event.target.value)}
        />
      </div>
      <Reading query={metrics} />
      {shown.length > 0 && (
        <TableBox label={t('system.metrics')}>
          <thead>
            <tr>
              <th scope="col">{t('system.stream')}</th>
              <th scope="col">{t('system.metrics.labels')}</th>
              <th scope="col" className="number">
                {t('system.metrics.value')}
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((family) => (
              <Rows key={family.name} family={family} />
            ))}
          </tbody>
        </TableBox>
      )}
    </section>
  )
}

function Rows({ family }: { family: Family }): JSX.Element {
  return (
    <>
      {family.samples.map((sample, place) => (
        <tr key={`${sample.name} ${sample.labels}`} data-metric={sample.name}>
          <td>
            <span className="mono">{sample.name}</span>
            {place === 0 && <small>{family.help}</small>}
          </td>
          <td className="mono faint-text">{sample.labels}</td>
          <td className="number">{number(sample.value)}</td>
        </tr>
      ))}
    </>
  )
}
