// A new schedule: a flow that workers know, or a flow.yaml that is written here, and when.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useState } from 'react'
import { ask, get, send } from '../../api/client'
import type { KnownFlow } from '../../api/types'
import { useDoing } from '../../live/doing'
import { Dialog } from '../../parts/dialog'
import { say } from '../../parts/toast'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { paramsIn, paramsToBegin } from '../flows/params'
import { KnownParams } from '../flows/submit'
import { EXAMPLE } from '../flows/submit-yaml'
import { TagField, useTag } from '../flows/tag-field'
import { KINDS, type Kind, type When, whenGiven, whenToBegin } from './when'

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
  const [typed, setTyped] = useState<string | null>(null)
  const [when, setWhen] = useState<When>(whenToBegin)
  const doing = useDoing()
  const known = ofYaml ? undefined : flows.data?.find((one) => one.flow_name === name)
  const tag = useTag(known, name, !ofYaml && flows.isSuccess)
  const params = typed ?? JSON.stringify(paramsToBegin(known?.params, undefined), null, 2)
  const make = async () => {
    const wanted = { flow_name: name, tag: tag.value, ...whenGiven(when) }
    if (ofYaml) await ask('/schedules/yaml', { method: 'POST', body: formOf(wanted, yaml) })
    else await send('POST', '/schedules', { ...wanted, params: paramsIn(params) })
    say(t('schedules.made', { flow: name }))
    onMade()
  }
  return (
    <Dialog title={t('schedules.new')} onClose={onClose} wide>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          doing.run(make)
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
          <label className="field">
            {t('flows.submit.params')}
            <textarea value={params} rows={4} spellCheck={false} onChange={(event) => setTyped(event.target.value)} />
          </label>
        )}
        <KnownParams params={known?.params ?? []} text={params} />
        <Timing when={when} change={(some) => setWhen({ ...when, ...some })} />
        {doing.error !== null && <Wrong error={doing.error} />}
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

function Timing({ when, change }: { when: When; change: (some: Partial<When>) => void }): JSX.Element {
  return (
    <fieldset className="timing">
      <legend>{t('schedules.when')}</legend>
      <div className="choices in-row">
        {KINDS.map((kind: Kind) => (
          <label key={kind}>
            <input type="radio" name="kind" checked={when.kind === kind} onChange={() => change({ kind })} />
            {t(`schedules.kind.${kind}`)}
          </label>
        ))}
      </div>
      <div className="fields">
        {when.kind === 'cron' && (
          <>
            <label className="field">
              {t('schedules.cron')}
              <input
                className="mono"
                value={when.cron}
                required
                onChange={(event) => change({ cron: event.target.value })}
              />
            </label>
            <label className="field">
              {t('schedules.zone')}
              <input value={when.zone} onChange={(event) => change({ zone: event.target.value })} />
            </label>
          </>
        )}
        {when.kind === 'interval' && (
          <label className="field">
            {t('schedules.seconds')}
            <input
              type="number"
              min="0.1"
              step="any"
              value={when.seconds}
              required
              onChange={(event) => change({ seconds: event.target.value })}
            />
          </label>
        )}
        {when.kind === 'once' && (
          <label className="field">
            {t('schedules.at')}
            <input
              type="datetime-local"
              step="1"
              value={when.at}
              required
              onChange={(event) => change({ at: event.target.value })}
            />
          </label>
        )}
      </div>
    </fieldset>
  )
}

function formOf(wanted: Record<string, string | number>, yaml: string): FormData {
  const form = new FormData()
  form.set('workflow', new File([yaml], 'flow.yaml', { type: 'application/yaml' }))
  for (const [name, value] of Object.entries(wanted)) form.set(name, String(value))
  return form
}
