// Asked once before a cancel, because it is never undone.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { get, part, send } from '../../api/client'
import type { Caller, Run } from '../../api/types'
import { useDoing, useKeyOf } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'

export function CancelDialog({ run, onClose }: { run: Run; onClose: () => void }): JSX.Element {
  const [reason, setReason] = useState('')
  const doing = useDoing()
  const keyOf = useKeyOf()
  const caller = useQuery({
    queryKey: ['caller'],
    queryFn: () => get<Caller>('/caller'),
    staleTime: Number.POSITIVE_INFINITY,
  })
  const cancel = async () => {
    const wanted = reason ? { reason } : {}
    await send('POST', `/runs/${part(run.run_id)}/cancel`, wanted, keyOf(wanted))
    onClose()
  }
  return (
    <Dialog title={t('cancel.title')} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          doing.run(cancel)
        }}
      >
        <p>{t('cancel.text', { sec: caller.data?.cancel_grace_sec ?? '…' })}</p>
        {doing.error !== null && <Wrong error={doing.error} />}
        <label className="field">
          {t('cancel.reason')}
          <input value={reason} maxLength={1000} onChange={(event) => setReason(event.target.value)} />
        </label>
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('cancel.keep')}
          </button>
          <button type="submit" className="danger" disabled={doing.busy}>
            {t('cancel.do')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
