// Dismiss a dead letter, with a note for those who look at it later.
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Letter } from '../../api/types'
import { Confirm } from '../../parts/confirm'
import { say } from '../../parts/toast'
import { t } from '../../text/text'

const NOTE_MAX = 1000

export function DismissDialog({ letter, onClose }: { letter: Letter; onClose: () => void }): JSX.Element {
  const [note, setNote] = useState('')
  const dismiss = async () => {
    await send('POST', `/dlq/${part(letter.id)}/dismiss`, note.trim() ? { note: note.trim() } : {})
    say(t('dlq.dismissDone', { id: letter.id }))
  }
  return (
    <Confirm
      title={t('dlq.dismissTitle', { id: letter.id })}
      safe={t('do.close')}
      go={t('dlq.dismiss')}
      act={dismiss}
      onClose={onClose}
    >
      <p>{t('dlq.dismissText')}</p>
      <label className="field">
        {t('dlq.note')}
        <input data-first value={note} maxLength={NOTE_MAX} onChange={(event) => setNote(event.target.value)} />
      </label>
    </Confirm>
  )
}
