// A new schedule: a flow that workers know, or a flow.yaml that is written here, and when.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { ApiError, ask, get, send } from '../../api/client'
import type { KnownFlow } from '../../api/types'
import { useDoing } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { say } from '../../parts/toast'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { focusProblem, ParamsField } from '../flows/form/params-field'
import { useParams } from '../flows/form/use-params'
import { paramsToBegin } from '../flows/params'
import { EXAMPLE } from '../flows/submit-yaml'
import { TagField, useTag } from '../flows/tag-field'
import { Timing } from './timing'
import { FIELDS, type When, whenGiven, whenToBegin } from './when'

export function NewSchedule({
  flow,
  onClose,
  onMade,
}: {
  flow: string
  onClose: () => void
  onMade: () => void
}): JSX.Element {
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  const [ofYaml, setOfYaml] = useState(false)
  const [yaml, setYaml] = useState(EXAMPLE)
  const [name, setName] = useState(flow)
  const [when, setWhen] = useState<When>(whenToBegin)
  // What was sent: a refusal is about that, and no longer about what is typed now.
  const [sent, setSent] = useState<When | null>(null)
  const doing = useDoing()
  const known = ofYaml ? undefined : flows.data?.find((one) => one.flow_name === name)
  const tag = useTag(known, name, !ofYaml && flows.isSuccess)
  const params = useParams(known?.params, paramsToBegin(known?.params, undefined))
  const make = () => {
    const values = ofYaml ? {} : params.read()
    if (values === null) return focusProblem()
    setSent(when)
    doing.run(async () => {
      const wanted = { flow_name: name, tag: tag.value, ...whenGiven(when) }
      if (ofYaml) await ask('/schedules/yaml', { method: 'POST', body: formOf(wanted, yaml) })
      else await send('POST', '/schedules', { ...wanted, params: values })
      say(t('schedules.made', { flow: name }))
      onMade()
    })
  }
  return (
    <Dialog title={t('schedules.new')} onClose={onClose} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          make()
        }}
      >
        <div className="choices in-row">
          <label>
            <input type="radio" name="what" checked={!ofYaml} onChange={() => setOfYaml(false)} />
            {t('schedules.ofFlow')}
          </label>
          <label>
            <input type="radio" name="what" checked={ofYaml} onChange={() => setOfYaml(true)} />
            {t('schedules.ofYaml')}
          </label>
        </div>
        <div className="fields">
          <label className="field">
            {t('flows.submit.flow')}
            <input value={name} required list="schedule-flows" onChange={(event) => setName(event.target.value)} />
            <datalist id="schedule-flows">
              {(flows.data ?? []).map((one) => (
                <option key={one.flow_name} value={one.flow_name} />
              ))}
            </datalist>
          </label>
          <TagField tag={tag} />
        </div>
        {ofYaml ? (
          <label className="field">
            {t('flows.submit.yaml')}
            <textarea value={yaml} rows={10} spellCheck={false} onChange={(event) => setYaml(event.target.value)} />
          </label>
        ) : (
          <ParamsField form={params} known={known?.params} rows={4} />
        )}
        <Timing
          when={when}
          change={(some) => setWhen({ ...when, ...some })}
          refusal={sent === when ? doing.error : null}
        />
        {doing.error !== null && !isOfTiming(doing.error) && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy || tag.isPending}>
            {t(tag.isUnserved ? 'schedules.makeAnyway' : 'schedules.make')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

/** Those stand beside their fields. */
function isOfTiming(error: unknown): boolean {
  const problems = error instanceof ApiError ? error.problems : []
  return problems.length > 0 && problems.every((one) => FIELDS.some((name) => one.loc?.includes(name)))
}

function formOf(wanted: Record<string, string | number>, yaml: string): FormData {
  const form = new FormData()
  form.set('workflow', new File([yaml], 'flow.yaml', { type: 'application/yaml' }))
  for (const [name, value] of Object.entries(wanted)) form.set(name, String(value))
  return form
}
