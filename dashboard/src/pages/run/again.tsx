// Run it again: with what succeeded taken over, or everything anew, with the same or other parameters.
import { type JSX, useState } from 'react'
import { part, send } from '../../api/client'
import type { Run } from '../../api/types'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { paramsIn } from '../flows/params'

export function Again({ run, onClose }: { run: Run; onClose: () => void }): JSX.Element {
  const given = JSON.stringify(run.params, null, 2)
  const [from, setFrom] = useState<'failed' | 'start'>(run.status === 'COMPLETED' ? 'start' : 'failed')
  const [text, setText] = useState(given)
  const [error, setError] = useState<unknown>(null)
  // The text of a flow.yaml stays with its run: only the run itself can be tried again.
  const editable = run.workflow_yaml_sha256 === null
  const start = async () => {
    try {
      const anew = from === 'start' && editable && text !== given
      const made = anew
        ? await send<{ run_id: string }>('POST', '/runs', { flow_name: run.flow_name, tag: run.tag, tags: run.tags, params: paramsIn(text) })
        : await send<{ run_id: string }>('POST', `/runs/${part(run.run_id)}/retry`, { from })
      onClose()
      go(`/runs/${part(made.run_id)}`)
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog title={t('run.againTitle', { flow: run.flow_name })} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void start() }}>
        <div className="choices">
          <label><input type="radio" name="from" checked={from === 'failed'} onChange={() => setFrom('failed')} />{t('run.againSame')}</label>
          <label><input type="radio" name="from" checked={from === 'start'} onChange={() => setFrom('start')} />{t('run.againStart')}</label>
        </div>
        {editable && (
          <textarea value={text} disabled={from === 'failed'} aria-label={t('run.params')} spellCheck={false} onChange={(event) => setText(event.target.value)} />
        )}
        {error !== null && <Wrong error={error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>{t('do.close')}</button>
          <button type="submit" className="main">{t('run.againDo')}</button>
        </div>
      </form>
    </Dialog>
  )
}
