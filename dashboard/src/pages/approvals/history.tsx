// Approvals that were answered: what was asked, what was decided, by whom and when. The latest first.
import { useInfiniteQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { GivenAnswer } from '../../api/executions'
import { useReread } from '../../live/reread'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { short } from '../../text/format'
import { t } from '../../text/text'
import { matches, questionOf } from './sorting'

type Answers = { items: GivenAnswer[]; next_cursor: string | null }

const PAGE = 50

export function History({ search }: { search: string }): JSX.Element {
  const pages = useInfiniteQuery({
    queryKey: ['answers'],
    queryFn: ({ pageParam }) => get<Answers>('/approvals/history', { limit: PAGE, cursor: pageParam }),
    initialPageParam: '',
    getNextPageParam: (last) => last.next_cursor,
  })
  useReread('approvals', ['answers'])
  const all = pages.data?.pages.flatMap((page) => page.items) ?? []
  const shown = all.filter((one) => matches(one, search))
  return (
    <>
      <Reading query={pages} />
      {pages.data && shown.length === 0 && (
        <p className="empty">{t(all.length === 0 ? 'approvals.none.history' : 'approvals.none.match')}</p>
      )}
      {shown.length > 0 && <Answered answers={shown} />}
      {pages.hasNextPage && (
        <button type="button" onClick={() => void pages.fetchNextPage()}>
          {t('do.more')}
        </button>
      )}
    </>
  )
}

function Answered({ answers }: { answers: GivenAnswer[] }): JSX.Element {
  return (
    <TableBox label={t('approvals.history')}>
      <thead>
        <tr>
          <th scope="col">{t('approvals.when')}</th>
          <th scope="col">{t('approvals.decision')}</th>
          <th scope="col">{t('approvals.question')}</th>
          <th scope="col">{t('approvals.by')}</th>
          <th scope="col">{t('approvals.note')}</th>
          <th scope="col">{t('approvals.run')}</th>
        </tr>
      </thead>
      <tbody>
        {answers.map((one) => (
          <tr key={`${one.run_id} ${one.task} ${one.answered_at}`} data-answer={one.run_id}>
            <td className="nowrap">
              <Ago at={one.answered_at} />
            </td>
            <td className="nowrap">
              <Status status={one.decision === 'reject' ? 'REJECTED' : 'APPROVED'} />
            </td>
            <td>
              {questionOf(one.prompt) ?? one.task}
              {questionOf(one.prompt) && <small>{one.task}</small>}
            </td>
            <td>{one.by ?? <span className="faint-text">{t('approvals.anonymous')}</span>}</td>
            <td>{one.comment ?? '–'}</td>
            <td className="nowrap">
              <a href={`#/runs/${part(one.run_id)}`}>
                {one.flow_name} <span className="mono">{short(one.run_id)}</span>
              </a>
            </td>
          </tr>
        ))}
      </tbody>
    </TableBox>
  )
}
