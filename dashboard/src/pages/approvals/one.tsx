// One approval at an address of its own, to send to the person who decides.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { Run } from '../../api/types'
import { useReread } from '../../live/reread'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { t } from '../../text/text'
import { ApprovalCard } from './card'
import { questionOf } from './sorting'

export default function OneApproval({ run, task }: { run: string; task: string }): JSX.Element {
  const read = useQuery({
    queryKey: ['approvals', run],
    queryFn: () => get<Run>(`/runs/${part(run)}`, { include: 'records' }),
  })
  useReread('approvals', ['approvals', run])
  const wait = read.data?.task_records?.[task]?.wait
  const title = questionOf(wait?.prompt ?? null) ?? t('approvals.untitled', { task })
  return (
    <Page
      title={t('approvals.title')}
      tab={title}
      actions={
        <a className="button" href="#/approvals">
          {t('approvals.all')}
        </a>
      }
    >
      <Reading query={read} />
      {read.data && wait && (
        <div className="cards one">
          <ApprovalCard
            wait={{
              run_id: run,
              task,
              flow_name: read.data.flow_name,
              wait_key: wait.key,
              since: wait.since,
              prompt: wait.prompt ?? null,
              deadline_at: wait.deadline_at,
            }}
          />
        </div>
      )}
      {read.data && !wait && (
        <div className="empty">
          <Status status={read.data.status} />
          <p>{t('approvals.gone')}</p>
          <a className="button main" href={`#/runs/${part(run)}`}>
            {t('approvals.toRun')}
          </a>
        </div>
      )}
    </Page>
  )
}
