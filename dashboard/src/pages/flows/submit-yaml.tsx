// Start a run of a flow.yaml that is written here; the server checks it whole and says what is wrong where.
import { type JSX, useRef, useState } from 'react'
import { ApiError, ask, part } from '../../api/client'
import { useDoing, useKeyOf } from '../../live/doing'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { TagField, useTag } from './tag-field'

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
  const tag = useTag(undefined, name, false)
  const [text, setText] = useState(EXAMPLE)
  const doing = useDoing()
  const keyOf = useKeyOf()
  const area = useRef<HTMLTextAreaElement>(null)
  const start = async () => {
    const form = new FormData()
    form.set('workflow', new File([text], 'flow.yaml', { type: 'application/yaml' }))
    form.set('flow_name', name)
    form.set('tag', tag.value)
    try {
      const answer = await ask('/runs/yaml', { method: 'POST', body: form, headers: keyOf([text, name, tag.value]) })
      go(`/runs/${part(((await answer.json()) as { run_id: string }).run_id)}`)
    } catch (refused) {
      if (refused instanceof ApiError) select(area.current, text, refused.problems[0])
      throw refused
    }
  }
  return (
    <Dialog title={t('flows.yaml')} onClose={onClose} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          doing.run(start)
        }}
      >
        <label className="field">
          {t('flows.submit.flow')}
          <input value={name} required onChange={(event) => setName(event.target.value)} />
        </label>
        <TagField tag={tag} />
        <label className="field">
          {t('flows.submit.yaml')}
          <textarea
            ref={area}
            rows={14}
            value={text}
            spellCheck={false}
            onChange={(event) => setText(event.target.value)}
          />
        </label>
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy || tag.isPending}>
            {t(tag.isUnserved ? 'flows.submit.anyway' : 'flows.submit.do')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** Put the caret where the server says the first problem is. */
function select(
  area: HTMLTextAreaElement | null,
  text: string,
  problem: { line?: number; column?: number } | undefined,
): void {
  if (!area || problem?.line === undefined) return
  const before = text
    .split('\n')
    .slice(0, problem.line - 1)
    .join('\n')
  const at = (before ? before.length + 1 : 0) + (problem.column ?? 1) - 1
  area.focus()
  area.setSelectionRange(at, at + 1)
}
