// Graphs that were registered for executions driven by other programs.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { Graph } from '../../api/executions'
import { Reading } from '../../parts/reading'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { instant } from '../../text/format'
import { t } from '../../text/text'

export function Graphs(): JSX.Element | null {
  const graphs = useQuery({ queryKey: ['graphs'], queryFn: () => get<{ graphs: Graph[] }>('/graphs', { limit: 200 }) })
  if (!graphs.data) return <Reading query={graphs} quiet />
  return (
    <section>
      <h2 className="section-title">{t('graphs.title')}</h2>
      {graphs.data.graphs.length === 0 ? (
        <p className="faint-text">{t('graphs.none')}</p>
      ) : (
        <TableBox label={t('graphs.title')}>
          <thead>
            <tr>
              <th scope="col">{t('graphs.title')}</th>
              <th scope="col" className="number">
                {t('graphs.version')}
              </th>
              <th scope="col">{t('wheels.when')}</th>
            </tr>
          </thead>
          <tbody>
            {graphs.data.graphs.map((one) => (
              <tr key={one.graphId}>
                <td>
                  <a href={`#/runs?flow=${part(`graph:${one.graphId}`)}`}>
                    <b>{one.graphId}</b>
                  </a>
                </td>
                <td className="number">{one.version}</td>
                <td>
                  <Ago at={instant(one.createdAt)} />
                </td>
              </tr>
            ))}
          </tbody>
        </TableBox>
      )}
    </section>
  )
}
