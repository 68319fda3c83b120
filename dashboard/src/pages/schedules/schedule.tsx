// One schedule: when it is due, what happens then, and what happened each time.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useCallback, useState } from 'react'
import { get, part, send } from '../../api/client'
import { type Schedule, TERMINAL } from '../../api/types'
import { useDoing } from '../../live/doing'
import { reread, useOnRuns, useReread } from '../../live/reread'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { Ago } from '../../parts/time'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { number, short } from '../../text/format'
import { type Key, t, word } from '../../text/text'
import { BackfillForm } from './backfill-form'
import { EditSchedule } from './edit-schedule'
import { Occurrences } from './occurrences'
import { RunNow } from './run-now'
import { Upcoming } from './timing'
import { WhenText } from './when-text'

const REREAD_MS = 1500

export type Backfill = {
  state: 'RUNNING' | 'STOPPED' | 'COMPLETED'
  total: number
  started: number
  existing: number
}

export default function OneSchedule({ id }: { id: string }): JSX.Element {
  const queries = useQueryClient()
  const path = `/schedules/${part(id)}`
  const query = useQuery({ queryKey: ['schedules', id], queryFn: () => get<Schedule>(path) })
  const [dialog, setDialog] = useState<'edit' | 'backfill' | null>(null)
  const again = useCallback(() => void reread(queries, ['schedules']), [queries])
  useReread('schedules', ['schedules'])
  useOnRuns(
    useCallback((run) => run.schedule_id === id && TERMINAL.has(run.status), [id]),
    REREAD_MS,
    again,
  )
  const schedule = query.data
  const title = schedule?.name ?? schedule?.flow_name ?? short(id)
  return (
    <Page
      title={title}
      actions={
        <>
          <a className="button" href="#/schedules">
            {t('schedule.all')}
          </a>
          {schedule && <Actions schedule={schedule} path={path} again={again} open={setDialog} />}
        </>
      }
    >
      <Reading query={query} />
      {schedule && (
        <>
          <Facts schedule={schedule} />
          <Occurrences id={id} zone={schedule.timezone} />
        </>
      )}
      {schedule && dialog === 'edit' && (
        <EditSchedule schedule={schedule} onClose={() => setDialog(null)} onSaved={again} />
      )}
      {schedule && dialog === 'backfill' && (
        <BackfillForm path={path} onClose={() => setDialog(null)} onStarted={again} />
      )}
    </Page>
  )
}

function Actions(props: {
  schedule: Schedule
  path: string
  again: () => void
  open: (dialog: 'edit' | 'backfill') => void
}): JSX.Element | null {
  const { schedule, path, again, open } = props
  const doing = useDoing()
  if (schedule.status === 'COMPLETED') return null
  const isPaused = schedule.status === 'PAUSED'
  const isBackfilling = (schedule.backfill as Backfill | null)?.state === 'RUNNING'
  const act = (method: string, verb: string, said: Key | null) =>
    doing.run(async () => {
      try {
        await send(method, `${path}/${verb}`)
        if (said !== null) say(t(said))
      } catch (error) {
        say(sentence(error), true)
      }
      again()
    })
  return (
    <>
      <RunNow schedule={schedule} />
      <button type="button" className="small" onClick={() => open('edit')}>
        {t('schedule.edit')}
      </button>
      {isBackfilling ? (
        <button type="button" className="small" disabled={doing.busy} onClick={() => act('DELETE', 'backfill', null)}>
          {t('schedule.backfill.stop')}
        </button>
      ) : (
        <button type="button" className="small" onClick={() => open('backfill')}>
          {t('schedule.backfill')}
        </button>
      )}
      <button
        type="button"
        className="small"
        disabled={doing.busy}
        onClick={() => act('POST', isPaused ? 'resume' : 'pause', isPaused ? 'schedule.resumed' : 'schedule.paused')}
      >
        {t(isPaused ? 'schedule.resume' : 'schedule.pause')}
      </button>
    </>
  )
}

function Facts({ schedule }: { schedule: Schedule }): JSX.Element {
  const backfill = schedule.backfill as Backfill | null
  const counts = Object.entries(schedule.runs ?? {}).filter(([, count]) => count > 0)
  return (
    <dl className="facts">
      <dt>{t('schedules.flow')}</dt>
      <dd>
        <a href={`#/flows/${part(schedule.flow_name)}`}>{schedule.flow_name}</a>{' '}
        <span className="mono faint-text">{schedule.tag}</span>
      </dd>
      <dt>{t('schedules.status')}</dt>
      <dd>{word(`schedules.status.${schedule.status}`, schedule.status)}</dd>
      <dt>{t('schedules.when')}</dt>
      <dd>
        <WhenText schedule={schedule} whole />
      </dd>
      <dt>{t('schedules.next')}</dt>
      <dd>
        {schedule.status === 'PAUSED' ? '–' : <Upcoming instants={schedule.upcoming ?? []} zone={schedule.timezone} />}
      </dd>
      {schedule.queued_at && (
        <>
          <dt>{t('schedule.waits')}</dt>
          <dd>
            <Ago at={schedule.queued_at} />
          </dd>
        </>
      )}
      <dt>{t('schedule.overlap')}</dt>
      <dd>{word(`schedule.overlap.${schedule.overlap}`, schedule.overlap ?? '')}</dd>
      <dt>{t('schedule.catchUp')}</dt>
      <dd>
        {word(`schedule.catchUp.${schedule.catch_up}`, schedule.catch_up ?? '')}
        {schedule.catch_up_within_seconds && ` ${number(schedule.catch_up_within_seconds)} s`}
      </dd>
      {schedule.end_at && (
        <>
          <dt>{t('schedule.endAt')}</dt>
          <dd>
            <Ago at={schedule.end_at} />
          </dd>
        </>
      )}
      <dt>{t('schedule.runs')}</dt>
      <dd>
        {counts.length === 0
          ? '–'
          : counts.map(([status, count]) => (
              <span key={status} className="nowrap">
                <Status status={status} /> {number(count)}{' '}
              </span>
            ))}
      </dd>
      <dt>{t('schedule.skipped')}</dt>
      <dd>{number(schedule.skip_count ?? 0)}</dd>
      {backfill && (
        <>
          <dt>{t('schedule.backfill')}</dt>
          <dd>
            {t(`schedule.backfill.${backfill.state}`)}: {t('schedule.backfill.done', backfill)}
          </dd>
        </>
      )}
    </dl>
  )
}
