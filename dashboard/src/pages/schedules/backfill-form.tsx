// Start the runs of a range of the past.
import { type JSX, useState } from 'react'
import { send } from '../../api/client'
import { useDoing } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'

export function BackfillForm(props: { path: string; onClose: () => void; onStarted: () => void }): JSX.Element {
  const { path, onClose, onStarted } = props
  const [from, setFrom] = useState('')
  const [to, setTo] = useState('')
  const [most, setMost] = useState('1')
  const doing = useDoing()
  const start = () =>
    doing.run(async () => {
      const range = { from: new Date(from).toISOString(), to: new Date(to).toISOString() }
      await send('POST', `${path}/backfill`, { ...range, max_running: Number(most) })
      onStarted()
      onClose()
    })
  return (
    <Dialog title={t('schedule.backfill')} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          start()
        }}
      >
        <p>{t('schedule.backfill.text')}</p>
        <div className="fields">
          <label className="field">
            {t('schedule.backfill.from')}
            <input
              type="datetime-local"
              step="1"
              value={from}
              required
              onChange={(event) => setFrom(event.target.value)}
            />
          </label>
          <label className="field">
            {t('schedule.backfill.to')}
            <input type="datetime-local" step="1" value={to} required onChange={(event) => setTo(event.target.value)} />
          </label>
          <label className="field">
            {t('schedule.backfill.most')}
            <input type="number" min="1" max="100" value={most} onChange={(event) => setMost(event.target.value)} />
          </label>
        </div>
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy}>
            {t('schedule.backfill.start')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
