// What is run at its time, when next, and how it went last.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useCallback, useState } from 'react'
import { get, part, send } from '../../api/client'
import { type RunSummary, type Schedule, TERMINAL } from '../../api/types'
import { rewrite, usePlace } from '../../live/place'
import { reread, useOnRuns, useReread } from '../../live/reread'
import { Confirm } from '../../parts/confirm'
import { clientCommand } from '../../parts/copy'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { number, short } from '../../text/format'
import { type Key, t, word } from '../../text/text'
import { NewSchedule } from './new-schedule'
import { RunNow } from './run-now'
import { Upcoming } from './timing'
import { WhenText } from './when-text'

const COMMAND = "schedule add nightly --cron '0 3 * * *' --timezone Asia/Tokyo"
const REREAD_MS = 1500
const HEADS: Key[] = [
  'schedules.flow',
  'schedules.when',
  'schedules.next',
  'schedules.lastRun',
  'schedules.status',
  'schedules.runs',
]

export default function Schedules(): JSX.Element {
  const queries = useQueryClient()
  const list = useQuery({ queryKey: ['schedules'], queryFn: () => get<Schedule[]>('/schedules', { upcoming: 5 }) })
  const [deleting, setDeleting] = useState<Schedule | null>(null)
  useReread('schedules', ['schedules'])
  useOnRuns(
    isOfScheduleAndOver,
    REREAD_MS,
    useCallback(() => void reread(queries, ['schedules']), [queries]),
  )
  const { query } = usePlace()
  const close = () => rewrite({ new: null, flow: null })
  const remove = async (schedule: Schedule) => {
    await send('DELETE', `/schedules/${part(schedule.schedule_id)}`)
    await reread(queries, ['schedules'])
  }
  return (
    <Page
      title={t('schedules.title')}
      actions={
        <button type="button" className="main" onClick={() => rewrite({ new: '1' })}>
          {t('schedules.new')}
        </button>
      }
    >
      <Reading query={list} />
      {list.data?.length === 0 && (
        <Empty title={t('schedules.none.title')} text={t('schedules.none.text')} command={clientCommand(COMMAND)} />
      )}
      {list.data && list.data.length > 0 && (
        <TableBox label={t('schedules.title')}>
          <thead>
            <tr>
              {HEADS.map((key) => (
                <th key={key} scope="col" className={key === 'schedules.runs' ? 'number' : undefined}>
                  {t(key)}
                </th>
              ))}
              <th scope="col">
                <span className="unseen">{t('schedules.delete')}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {list.data.map((one) => (
              <Row key={one.schedule_id} schedule={one} remove={() => setDeleting(one)} />
            ))}
          </tbody>
        </TableBox>
      )}
      {query.has('new') && (
        <NewSchedule
          flow={query.get('flow') ?? ''}
          onClose={close}
          onMade={() => {
            close()
            void reread(queries, ['schedules'])
          }}
        />
      )}
      {deleting && (
        <Confirm
          title={t('schedules.deleteTitle')}
          safe={t('do.close')}
          go={t('schedules.delete')}
          act={() => remove(deleting)}
          onClose={() => setDeleting(null)}
        >
          <p>
            <b>{deleting.flow_name}</b> <span className="mono faint-text">{short(deleting.schedule_id)}</span>
          </p>
          <p>{t('schedules.deleteText')}</p>
        </Confirm>
      )}
    </Page>
  )
}

function Row({ schedule, remove }: { schedule: Schedule; remove: () => void }): JSX.Element {
  return (
    <tr data-schedule={schedule.schedule_id}>
      <td>
        <a href={`#/flows/${part(schedule.flow_name)}`}>
          <b>{schedule.flow_name}</b>
        </a>
        <small>
          <a href={`#/schedules/${part(schedule.schedule_id)}`}>
            {schedule.name ?? <span className="mono">{short(schedule.schedule_id)}</span>}
          </a>{' '}
          <span className="mono">· {schedule.tag}</span>
        </small>
      </td>
      <td>
        <WhenText schedule={schedule} whole />
      </td>
      <td>
        <Next schedule={schedule} />
      </td>
      <td className="nowrap">
        {schedule.last_run_id ? (
          <a href={`#/runs/${part(schedule.last_run_id)}`}>
            {schedule.last_status && <Status status={schedule.last_status} />}{' '}
            <small>
              <Ago at={schedule.last_at} />
            </small>
          </a>
        ) : (
          '–'
        )}
        {schedule.last_error && (
          <small className="status tone-bad">
            {t('schedules.error')}: {schedule.last_error}
          </small>
        )}
      </td>
      <td className="nowrap">{word(`schedules.status.${schedule.status}`, schedule.status)}</td>
      <td className="number">{number(schedule.dispatch_count ?? 0)}</td>
      <td className="right nowrap row-actions">
        <RunNow schedule={schedule} />{' '}
        <button
          type="button"
          className="small danger"
          aria-label={`${t('schedules.delete')}: ${schedule.flow_name}`}
          onClick={remove}
        >
          {t('schedules.delete')}
        </button>
      </td>
    </tr>
  )
}

/** When it is due next, and the times after that on demand. */
function Next({ schedule }: { schedule: Schedule }): JSX.Element {
  const { upcoming = [], timezone } = schedule
  // A paused schedule keeps the instant from which it goes on; nothing is due before it is resumed.
  if (schedule.status === 'PAUSED') return <>–</>
  if (upcoming.length < 2) return <Ago at={schedule.next_at} />
  return (
    <details className="upcoming">
      <summary title={t('schedules.upcoming')}>
        <Ago at={schedule.next_at} />
      </summary>
      <Upcoming instants={upcoming} zone={timezone} />
    </details>
  )
}

const isOfScheduleAndOver = (run: RunSummary) => run.schedule_id !== undefined && TERMINAL.has(run.status)
