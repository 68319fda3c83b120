// What can be done to a run: cancel it, or run it again.
import { type JSX, useEffect, useMemo, useState } from 'react'
import { part, send } from '../../api/client'
import { type Run, TERMINAL } from '../../api/types'
import { newKey, useDoing } from '../../live/doing'
import { type Keys, useKeys } from '../../live/keys'
import { go, rewrite, usePlace } from '../../live/place'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { t } from '../../text/text'
import { CancelDialog } from './cancel-dialog'

export function Actions({ run, again }: { run: Run; again: () => void }): JSX.Element {
  const { query } = usePlace()
  const [asking, setAsking] = useState<'cancel' | null>(null)
  const doing = useDoing()
  const over = TERMINAL.has(run.status)
  const wantsCancel = query.get('cancel') === '1'
  useEffect(() => {
    if (!wantsCancel) return
    rewrite({ cancel: null })
    if (!over) setAsking('cancel')
  }, [wantsCancel, over])
  const stoppable = !over && run.cancel_requested_at === null
  useKeys(useMemo((): Keys => (stoppable ? { c: () => setAsking('cancel') } : {}), [stoppable]))
  return (
    <>
      {stoppable && (
        <button type="button" className="danger" onClick={() => setAsking('cancel')}>
          {t('do.cancel')}
        </button>
      )}
      {over && run.status === 'FAILED' && (
        <button type="button" className="main" disabled={doing.busy} onClick={() => doing.run(() => retry(run))}>
          {t('run.retryFailed')}
        </button>
      )}
      {over && (
        <button type="button" onClick={again}>
          {t('run.again')}
        </button>
      )}
      {asking === 'cancel' && <CancelDialog run={run} onClose={() => setAsking(null)} />}
    </>
  )
}

export async function retry(run: Run): Promise<void> {
  try {
    const made = await send<{ run_id: string }>(
      'POST',
      `/runs/${part(run.run_id)}/retry`,
      { from: 'failed' },
      { 'Idempotency-Key': newKey() },
    )
    go(`/runs/${part(made.run_id)}`)
  } catch (error) {
    say(sentence(error), true)
  }
}
