// Start a run of a flow: its name, its tag, its parameters, those of the last run to begin with.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { get, part, send } from '../../api/client'
import type { KnownFlow, Run } from '../../api/types'
import { useDoing, useKeyOf } from '../../live/doing'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { focusProblem, ParamsField } from './form/params-field'
import { useParams } from './form/use-params'
import { paramsToBegin } from './params'
import { TagField, useTag } from './tag-field'

export function Submit({ flow, onClose }: { flow: KnownFlow | null; onClose: () => void }): JSX.Element {
  const [name, setName] = useState(flow?.flow_name ?? '')
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  const known = flow ?? flows.data?.find((one) => one.flow_name === name)
  const tag = useTag(known, name)
  const doing = useDoing()
  const keyOf = useKeyOf()
  const last = useQuery({
    queryKey: ['last params', flow?.last_run_id],
    queryFn: () => get<Run>(`/runs/${part(flow?.last_run_id ?? '')}`),
    enabled: Boolean(flow?.last_run_id),
  })
  const params = useParams(known?.params, paramsToBegin(known?.params, last.data?.params))
  const start = () => {
    const values = params.read()
    if (values === null) return focusProblem()
    const wanted = { flow_name: name, params: values, tag: tag.value }
    doing.run(async () => {
      const made = await send<{ run_id: string }>('POST', '/runs', wanted, keyOf(wanted))
      go(`/runs/${part(made.run_id)}`)
    })
  }
  return (
    <Dialog title={t('flows.submit.title', { flow: flow?.flow_name ?? '' })} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          start()
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
        <ParamsField form={params} known={known?.params} />
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
