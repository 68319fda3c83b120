// Ask for a recheck: first what it would be, then the real one.
import { type JSX, useState } from 'react'
import { send } from '../../api/client'
import type { Accepted } from '../../api/recheck'
import { useDoing, useKeyOf } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'

const DAYS_DEFAULT = '30'

export function Recheck({
  which,
  onClose,
  onStarted,
}: {
  which: string[] | 'all'
  onClose: () => void
  onStarted: (id: string) => void
}): JSX.Element {
  const [reason, setReason] = useState('manual')
  const [days, setDays] = useState(DAYS_DEFAULT)
  const [estimate, setEstimate] = useState<Accepted | null>(null)
  const doing = useDoing()
  const keyOf = useKeyOf()
  const ask = async (dryRun: boolean) => {
    const path = which === 'all' ? '/pdca/recheck_all' : '/pdca/recheck'
    const about = which === 'all' ? { filter: {} } : { strategies: which }
    const body = { ...about, reason, dry_run: dryRun, window: { lookback_days: Number(days) } }
    const accepted = await send<Accepted>('POST', path, body, keyOf([path, body]))
    if (dryRun) setEstimate(accepted)
    else onStarted(accepted.request_id)
  }
  return (
    <Dialog title={t('strategies.recheckTitle')} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          doing.run(() => ask(false))
        }}
      >
        <label className="field">
          {t('strategies.reason')}
          <input value={reason} required maxLength={64} onChange={(event) => setReason(event.target.value)} />
        </label>
        <label className="field">
          {t('strategies.days')}
          <input type="number" min={1} max={180} value={days} onChange={(event) => setDays(event.target.value)} />
        </label>
        {estimate && <p role="status">{t('strategies.estimated', estimate.estimated)}</p>}
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" disabled={doing.busy} onClick={() => doing.run(() => ask(true))}>
            {t('strategies.estimate')}
          </button>
          <button type="submit" className="main" disabled={doing.busy}>
            {t('strategies.start')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
