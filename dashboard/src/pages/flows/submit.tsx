// Start a run of a flow: its name, its tag, its parameters, those of the last run to begin with.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { get, part, send } from '../../api/client'
import type { KnownFlow, Param, Run } from '../../api/types'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { missingOf, paramsIn, paramsToBegin } from './params'

export function Submit({ flow, onClose }: { flow: KnownFlow | null; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(flow?.flow_name ?? '')
  const [tag, setTag] = useState(flow?.last_tag ?? flow?.tags[0] ?? '')
  const [text, setText] = useState<string | null>(null)
  const [error, setError] = useState<unknown>(null)
  const last = useQuery({
    queryKey: ['last params', flow?.last_run_id],
    queryFn: () => get<Run>(`/runs/${part(flow?.last_run_id ?? '')}`),
    enabled: Boolean(flow?.last_run_id),
  })
  const begins = paramsToBegin(flow?.params, last.data?.params)
  const shown = text ?? JSON.stringify(begins, null, 2)
  const start = async () => {
    try {
      const wanted = { flow_name: name, params: paramsIn(shown), ...(tag ? { tag } : {}) }
      const made = await send<{ run_id: string }>('POST', '/runs', wanted)
      go(`/runs/${part(made.run_id)}`)
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog title={t('flows.submit.title', { flow: flow?.flow_name ?? '' })} onClose={onClose}>
      <form onSubmit={(event) => { event.preventDefault(); void start() }}>
        {flow?.description && <p className="faint-text">{flow.description}</p>}
        {!flow && (
          <label className="field">
            {t('flows.submit.flow')}
            <input value={name} required onChange={(event) => setName(event.target.value)} />
          </label>
        )}
        <label className="field">
          {t('flows.submit.tag')}
          <input value={tag} placeholder="default" list="known-tags" onChange={(event) => setTag(event.target.value)} />
          <datalist id="known-tags">{(flow?.tags ?? []).map((one) => <option key={one} value={one} />)}</datalist>
        </label>
        <label className="field">
          {t('flows.submit.params')}
          <textarea value={shown} spellCheck={false} onChange={(event) => setText(event.target.value)} />
        </label>
        {last.data && text === null && <p className="faint-text">{t('flows.last.params')}</p>}
        <KnownParams params={flow?.params ?? []} text={shown} />
        {error !== null && <Wrong error={error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>{t('do.close')}</button>
          <button type="submit" className="main">{t('flows.submit.do')}</button>
        </div>
      </form>
    </Dialog>
  )
}

/** What it may be given, as its code says; what is needed and not there yet stands out. */
function KnownParams({ params, text }: { params: Param[]; text: string }): JSX.Element | null {
  if (params.length === 0) return null
  const missing = missingOf(params, givenIn(text))
  return (
    <ul className="known-params" aria-label={t('flows.submit.known')}>
      {params.map((one) => (
        <li key={one.name}>
          <code>{one.name}{one.type ? `: ${one.type}` : ''}</code>
          {one.required && <span className={missing.includes(one.name) ? 'missing' : 'faint-text'}> {t('flows.submit.required')}</span>}
          {'default' in one && <span className="faint-text"> = {JSON.stringify(one.default)}</span>}
        </li>
      ))}
    </ul>
  )
}

function givenIn(text: string): Record<string, unknown> {
  try {
    return paramsIn(text)
  } catch {
    return {} // still being typed
  }
}
