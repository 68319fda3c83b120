// Start a run of a flow: its name, its tag, its parameters, those of the last run to begin with.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { get, part, send } from '../../api/client'
import type { KnownFlow, Param, Run } from '../../api/types'
import { useDoing, useKeyOf } from '../../live/doing'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { missingOf, paramsIn, paramsToBegin } from './params'
import { TagField, useTag } from './tag-field'

export function Submit({ flow, onClose }: { flow: KnownFlow | null; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(flow?.flow_name ?? '')
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  const tag = useTag(flow ?? flows.data?.find((one) => one.flow_name === name), name)
  const [text, setText] = useState<string | null>(null)
  const doing = useDoing()
  const keyOf = useKeyOf()
  const last = useQuery({
    queryKey: ['last params', flow?.last_run_id],
    queryFn: () => get<Run>(`/runs/${part(flow?.last_run_id ?? '')}`),
    enabled: Boolean(flow?.last_run_id),
  })
  const begins = paramsToBegin(flow?.params, last.data?.params)
  const shown = text ?? JSON.stringify(begins, null, 2)
  const start = async () => {
    const wanted = { flow_name: name, params: paramsIn(shown), tag: tag.value }
    const made = await send<{ run_id: string }>('POST', '/runs', wanted, keyOf(wanted))
    go(`/runs/${part(made.run_id)}`)
  }
  return (
    <Dialog title={t('flows.submit.title', { flow: flow?.flow_name ?? '' })} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          doing.run(start)
        }}
      >
        {flow?.description && <p className="faint-text">{flow.description}</p>}
        {!flow && (
          <label className="field">
            {t('flows.submit.flow')}
            <input value={name} required onChange={(event) => setName(event.target.value)} />
          </label>
        )}
        <TagField tag={tag} />
        <label className="field">
          {t('flows.submit.params')}
          <textarea value={shown} spellCheck={false} onChange={(event) => setText(event.target.value)} />
        </label>
        {last.data && text === null && <p className="faint-text">{t('flows.last.params')}</p>}
        <KnownParams params={flow?.params ?? []} text={shown} />
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy || tag.isPending || isAwaited(last)}>
            {t(tag.isUnserved ? 'flows.submit.anyway' : 'flows.submit.do')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** Its first answer: one that failed is not waited for. */
function isAwaited(query: { isLoading: boolean; failureCount: number }): boolean {
  return query.isLoading && query.failureCount === 0
}

/** What it may be given, as its code says; what is needed and not there yet stands out. */
export function KnownParams({ params, text }: { params: Param[]; text: string }): JSX.Element | null {
  if (params.length === 0) return null
  const missing = missingOf(params, givenIn(text))
  return (
    <ul className="known-params" aria-label={t('flows.submit.known')}>
      {params.map((one) => (
        <li key={one.name}>
          <code>
            {one.name}
            {one.type ? `: ${one.type}` : ''}
          </code>
          {one.required && (
            <span className={missing.includes(one.name) ? 'missing' : 'faint-text'}> {t('flows.submit.required')}</span>
          )}
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
