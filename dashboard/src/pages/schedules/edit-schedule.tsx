// Change a schedule: its name, its policies, and when it is due. Refused if it has changed since it was read.
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Schedule } from '../../api/types'
import { useDoing } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { say } from '../../parts/toast'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { Timing } from './timing'
import { type When, whenGiven, whenToBegin } from './when'

const OVERLAPS = ['allow', 'skip', 'queue_one', 'cancel_running'] as const
const CATCH_UPS = ['none', 'last', 'all_within'] as const
const WITHIN_SEC = 3600

export function EditSchedule(props: { schedule: Schedule; onClose: () => void; onSaved: () => void }): JSX.Element {
  const { onClose, onSaved } = props
  // The schedule may change under the form: the revision is that of what is shown.
  const [schedule] = useState(props.schedule)
  const [name, setName] = useState(schedule.name ?? '')
  const [overlap, setOverlap] = useState<string>(schedule.overlap ?? 'allow')
  const [catchUp, setCatchUp] = useState<string>(schedule.catch_up ?? 'last')
  const [within, setWithin] = useState(String(schedule.catch_up_within_seconds ?? WITHIN_SEC))
  const [jitter, setJitter] = useState(String(schedule.jitter_seconds ?? 0))
  const [isRetimed, setRetimed] = useState(false)
  const [when, setWhen] = useState<When>(() => whenOf(schedule))
  const doing = useDoing()
  const save = () =>
    doing.run(async () => {
      await send('PATCH', `/schedules/${part(schedule.schedule_id)}`, {
        revision: schedule.revision,
        name: name.trim() === '' ? null : name,
        overlap,
        catch_up: catchUp,
        ...(catchUp === 'all_within' ? { catch_up_within_seconds: Number(within) } : {}),
        ...(Number(jitter) === schedule.jitter_seconds ? {} : { jitter_seconds: Number(jitter) }),
        ...(isRetimed ? whenGiven(when) : {}),
      })
      say(t('schedule.saved'))
      onSaved()
      onClose()
    })
  return (
    <Dialog title={t('schedule.edit')} onClose={onClose} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          save()
        }}
      >
        <div className="fields">
          <label className="field">
            {t('schedule.name')}
            <input value={name} maxLength={128} onChange={(event) => setName(event.target.value)} />
          </label>
          <label className="field">
            {t('schedule.jitter')}
            <input
              type="number"
              min="0"
              max="86400"
              step="any"
              value={jitter}
              onChange={(event) => setJitter(event.target.value)}
            />
          </label>
        </div>
        <div className="fields">
          <label className="field">
            {t('schedule.overlap')}
            <select value={overlap} onChange={(event) => setOverlap(event.target.value)}>
              {OVERLAPS.map((one) => (
                <option key={one} value={one}>
                  {t(`schedule.overlap.${one}`)}
                </option>
              ))}
            </select>
          </label>
          <label className="field">
            {t('schedule.catchUp')}
            <select value={catchUp} onChange={(event) => setCatchUp(event.target.value)}>
              {CATCH_UPS.map((one) => (
                <option key={one} value={one}>
                  {t(`schedule.catchUp.${one}`)}
                </option>
              ))}
            </select>
          </label>
          {catchUp === 'all_within' && (
            <label className="field">
              {t('schedule.within')}
              <input type="number" min="1" value={within} onChange={(event) => setWithin(event.target.value)} />
            </label>
          )}
        </div>
        <label>
          <input type="checkbox" checked={isRetimed} onChange={(event) => setRetimed(event.target.checked)} />{' '}
          {t('schedule.changeTime')}
        </label>
        {isRetimed && <Timing when={when} change={(some) => setWhen({ ...when, ...some })} refusal={doing.error} />}
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy}>
            {t('schedule.save')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function whenOf(schedule: Schedule): When {
  const begin = whenToBegin()
  if (schedule.cron) return { ...begin, cron: schedule.cron, zone: schedule.timezone ?? 'UTC' }
  if (schedule.interval_seconds) return { ...begin, kind: 'interval', seconds: String(schedule.interval_seconds) }
  return { ...begin, kind: 'once' }
}
