// A wheel from this machine to the workers.
import { type JSX, useState } from 'react'
import { ask } from '../../api/client'
import { useDoing } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { say } from '../../parts/toast'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'

export function Upload({ onClose, onDone }: { onClose: () => void; onDone: () => void }): JSX.Element {
  const [file, setFile] = useState<File | null>(null)
  const [tags, setTags] = useState('')
  const doing = useDoing()
  const upload = async () => {
    if (!file) return
    const form = new FormData()
    form.set('wheel', file)
    if (tags.trim()) form.set('tags', tags.trim())
    await ask('/wheels', { method: 'POST', body: form })
    say(t('wheels.uploaded', { name: file.name }))
    onDone()
    onClose()
  }
  return (
    <Dialog title={t('wheels.upload')} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          doing.run(upload)
        }}
      >
        <label className="field">
          {t('wheels.file')}
          <input type="file" accept=".whl" required onChange={(event) => setFile(event.target.files?.[0] ?? null)} />
        </label>
        <label className="field">
          {t('wheels.tags')}
          <input value={tags} onChange={(event) => setTags(event.target.value)} />
        </label>
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy || !file}>
            {t('wheels.do')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}
