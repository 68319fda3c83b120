// The queue of each tag: how many runs wait for a worker, since when, and who serves the tag.
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useCallback } from 'react'
import { get } from '../../api/client'
import type { RunSummary, TagQueue } from '../../api/types'
import { reread, useOnRuns } from '../../live/reread'
import { Reading } from '../../parts/reading'
import { Shape } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { Span } from '../../parts/time'
import { number } from '../../text/format'
import { t } from '../../text/text'
import { Tags } from './tags'

const PAUSE_MS = 2000
/** Runs that begin or end to wait for a worker change the queues. One that completes was RUNNING before. */
const waits = (run: RunSummary) => run.status !== 'COMPLETED'

/** `shape`: changes with the workers, which are told and not asked for. */
export function Queues({ shape }: { shape: string }): JSX.Element | null {
  const queries = useQueryClient()
  const queues = useQuery({
    queryKey: ['queues', shape],
    queryFn: () => get<TagQueue[]>('/workers/tags'),
    placeholderData: keepPreviousData,
    // Changes are followed only while the page is shown.
    staleTime: 0,
  })
  const again = useCallback(() => void reread(queries, ['queues']), [queries])
  useOnRuns(waits, PAUSE_MS, again)
  const found = queues.data ?? []
  if (found.length === 0) return <Reading query={queues} quiet />
  return (
    <section className="stack">
      <h2>{t('workers.queues')}</h2>
      <TableBox label={t('workers.queues')}>
        <thead>
          <tr>
            <th scope="col">{t('workers.queues.tag')}</th>
            <th scope="col" className="number">
              {t('workers.queues.backlog')}
            </th>
            <th scope="col" className="number">
              {t('workers.queues.oldest')}
            </th>
            <th scope="col" className="number">
              {t('workers.queues.workers')}
            </th>
            <th scope="col" className="number">
              {t('workers.queues.free')}
            </th>
          </tr>
        </thead>
        <tbody>
          {found.map((queue) => (
            <Row key={queue.tag} queue={queue} />
          ))}
        </tbody>
      </TableBox>
    </section>
  )
}

function Row({ queue }: { queue: TagQueue }): JSX.Element {
  return (
    <tr data-queue={queue.tag}>
      <td>
        <Tags tags={[queue.tag]} />
      </td>
      <td className="number">
        {queue.backlog === 0 ? (
          '0'
        ) : (
          <a href={`#/runs?status=PENDING&tag=${encodeURIComponent(queue.tag)}`}>
            {number(queue.backlog)}
            {queue.backlog_is_more ? '+' : ''}
          </a>
        )}
      </td>
      <td className="number">{queue.oldest_since === null ? '–' : <Span from={queue.oldest_since} to={null} />}</td>
      <td className="number">
        {queue.workers > 0 ? (
          number(queue.workers)
        ) : (
          <span className="status tone-bad">
            <Shape status="LOST" /> {t('workers.queues.unserved')}
          </span>
        )}
        {queue.draining > 0 && <small>{t('workers.queues.draining', { n: queue.draining })}</small>}
      </td>
      <td className="number">{queue.workers > 0 ? `${queue.free_slots} / ${queue.slots}` : '–'}</td>
    </tr>
  )
}
