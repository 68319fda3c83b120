// Asked once before a cancel, because it is never undone.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { get, part, send } from '../../api/client'
import type { Caller, Run } from '../../api/types'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'

export function CancelDialog({ run, onClose }: { run: Run; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState('')
  const [error, setError] = useState<unknown>(null)
  const caller = useQuery({ queryKey: ['caller'], queryFn: () => get<Caller>('/caller'), staleTime: Number.POSITIVE_INFINITY })
  const cancel = async () => {
    try {
      await send('POST', `/runs/${part(run.run_id)}/cancel`, reason ? { reason } : {})
      onClose()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog title={t('cancel.title')} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void cancel() }}>
        <p>{t('cancel.text', { sec: caller.data?.cancel_grace_sec ?? '…' })}</p>
        {error !== null && <Wrong error={error} />}
        <label className="field">
          {t('cancel.reason')}
          <input value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
        </label>
        <div className="buttons">
          <button type="button" onClick={onClose}>{t('cancel.keep')}</button>
          <button type="submit" className="danger">{t('cancel.do')}</button>
        </div>
      </form>
    </Dialog>
  )
}
