// One more run of a schedule, now.
import type { JSX } from 'react'
import { part, send } from '../../api/client'
import type { Schedule } from '../../api/types'
import { useDoing, useKeyOf } from '../../live/doing'
import { go } from '../../live/place'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { short } from '../../text/format'
import { t } from '../../text/text'

/** A schedule that has ended keeps no submission. */
export function RunNow({ schedule }: { schedule: Schedule }): JSX.Element | null {
  const doing = useDoing()
  const keyOf = useKeyOf()
  if (schedule.status === 'COMPLETED') return null
  const start = () =>
    doing.run(async () => {
      const path = `/schedules/${part(schedule.schedule_id)}/run`
      try {
        const made = await send<{ run_id: string }>('POST', path, undefined, keyOf([path, schedule.last_at]))
        say(t('schedules.running', { run: short(made.run_id) }))
        go(`/runs/${part(made.run_id)}`)
      } catch (error) {
        say(sentence(error), true)
      }
    })
  return (
    <button
      type="button"
      className="small"
      disabled={doing.busy}
      aria-label={`${t('schedules.run')}: ${schedule.flow_name}`}
      onClick={start}
    >
      {t('schedules.run')}
    </button>
  )
}
