// Start a run of a flow.yaml that is written here; the server checks it whole and says what is wrong where.
import { type JSX, useRef, useState } from 'react'
import { ApiError, ask, part } from '../../api/client'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'

export const EXAMPLE = `version: 1
flow:
  graph: |
    first >> second
  defaults: {}
tasks:
  first:
    callable: my_flows:first
  second:
    callable: my_flows:second
`

export function SubmitYaml({ onClose }: { onClose: () => void }): JSX.Element {
  const [name, setName] = useState('main')
  const [tag, setTag] = useState('')
  const [text, setText] = useState(EXAMPLE)
  const [error, setError] = useState<unknown>(null)
  const area = useRef<HTMLTextAreaElement>(null)
  const start = async () => {
    const form = new FormData()
    form.set('workflow', new File([text], 'flow.yaml', { type: 'application/yaml' }))
    form.set('flow_name', name)
    if (tag) form.set('tag', tag)
    try {
      const answer = await ask('/runs/yaml', { method: 'POST', body: form })
      go(`/runs/${part(((await answer.json()) as { run_id: string }).run_id)}`)
    } catch (refused) {
      setError(refused)
      if (refused instanceof ApiError) select(area.current, text, refused.problems[0])
    }
  }
  return (
    <Dialog title={t('flows.yaml')} onClose={onClose} wide>
      <form onSubmit={(event) => { event.preventDefault(); void start() }}>
        <label className="field">{t('flows.submit.flow')}<input value={name} required onChange={(event) => setName(event.target.value)} /></label>
        <label className="field">{t('flows.submit.tag')}<input value={tag} placeholder="default" onChange={(event) => setTag(event.target.value)} /></label>
        <label className="field">{t('flows.submit.yaml')}<textarea ref={area} rows={14} value={text} spellCheck={false} onChange={(event) => setText(event.target.value)} /></label>
        {error !== null && <Wrong error={error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>{t('do.close')}</button>
          <button type="submit" className="main">{t('flows.submit.do')}</button>
        </div>
      </form>
    </Dialog>
  )
}

/** Put the caret where the server says the first problem is. */
function select(area: HTMLTextAreaElement | null, text: string, problem: { line?: number; column?: number } | undefined): void {
  if (!area || problem?.line === undefined) return
  const before = text.split('\n').slice(0, problem.line - 1).join('\n')
  const at = (before ? before.length + 1 : 0) + (problem.column ?? 1) - 1
  area.focus()
  area.setSelectionRange(at, at + 1)
}
