// When a schedule is due, in words, with the expression beside them.
import type { JSX } from 'react'
import type { Schedule } from '../../api/types'
import { cronInWords } from '../../text/cron'
import { exact, span } from '../../text/format'
import { t } from '../../text/text'

export function WhenText({ schedule, whole = false }: { schedule: Schedule; whole?: boolean }): JSX.Element {
  if (schedule.cron) {
    const words = cronInWords(schedule.cron)
    if (words === null && !whole) return <code>{schedule.cron}</code>
    return (
      <>
        {words}
        {whole && (
          <small>
            <code>{schedule.cron}</code> {schedule.timezone}
          </small>
        )}
      </>
    )
  }
  if (schedule.interval_seconds) return <>{t('schedules.every', { sec: span(schedule.interval_seconds) })}</>
  return (
    <>
      {t('schedules.once')} <small>{schedule.run_at ? exact(schedule.run_at) : '–'}</small>
    </>
  )
}
