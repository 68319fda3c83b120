// What happened each time a schedule was due: a run, or why there is none. The latest first, in pages.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { get, part } from '../../api/client'
import { Reading } from '../../parts/reading'
import { TableBox } from '../../parts/table-box'
import { exactIn, number, short } from '../../text/format'
import { t, word } from '../../text/text'

const COUNT = 50

type Entry = {
  number: number
  outcome: string
  first_at: number
  last_at: number
  count: number | null
  origin: string
  reason: string | null
  run_id: string | null
}
type Found = { occurrences: Entry[]; next_before: number | null }

export function Occurrences({ id, zone }: { id: string; zone?: string | null }): JSX.Element {
  const [before, setBefore] = useState<number | null>(null)
  const query = useQuery({
    queryKey: ['schedules', id, 'occurrences', before],
    queryFn: () =>
      get<Found>(`/schedules/${part(id)}/occurrences`, { limit: COUNT, ...(before === null ? {} : { before }) }),
  })
  const found = query.data
  return (
    <section>
      <h2>{t('schedule.occurrences')}</h2>
      <Reading query={query} />
      {found?.occurrences.length === 0 && <p>{t('schedule.occurrences.none')}</p>}
      {found && found.occurrences.length > 0 && (
        <TableBox label={t('schedule.occurrences')}>
          <thead>
            <tr>
              <th scope="col">{t('schedule.planned')}</th>
              <th scope="col">{t('schedule.outcome')}</th>
              <th scope="col">{t('schedule.run')}</th>
              <th scope="col">{t('schedule.origin')}</th>
            </tr>
          </thead>
          <tbody>
            {found.occurrences.map((entry) => (
              <tr key={entry.number} data-outcome={entry.reason ?? entry.outcome}>
                <td>
                  {exactIn(entry.first_at, zone)}
                  {entry.last_at > entry.first_at && (
                    <small>
                      – {exactIn(entry.last_at, zone)},{' '}
                      {entry.count === null ? t('schedule.countMany') : t('schedule.count', { n: number(entry.count) })}
                    </small>
                  )}
                </td>
                <td>{word(`schedule.outcome.${entry.reason ?? entry.outcome}`, entry.reason ?? entry.outcome)}</td>
                <td>
                  {entry.run_id ? (
                    <a className="mono" href={`#/runs/${part(entry.run_id)}`}>
                      {short(entry.run_id)}
                    </a>
                  ) : (
                    '–'
                  )}
                </td>
                <td>{entry.run_id ? word(`schedule.origin.${entry.origin}`, entry.origin) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </TableBox>
      )}
      <div className="buttons">
        {before !== null && (
          <button type="button" className="small" onClick={() => setBefore(null)}>
            {t('schedule.newest')}
          </button>
        )}
        {found?.next_before && (
          <button type="button" className="small" onClick={() => setBefore(found.next_before)}>
            {t('schedule.older')}
          </button>
        )}
      </div>
    </section>
  )
}
