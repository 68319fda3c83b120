// Run it again: reuse what succeeded, begin from a task, or run everything; with the same or other parameters.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useId, useMemo, useState } from 'react'
import { get, part, send } from '../../api/client'
import type { KnownFlow } from '../../api/types'
import { useDoing, useKeyOf } from '../../live/doing'
import { go } from '../../live/place'
import { Dialog } from '../../parts/dialog'
import { Wrong } from '../../parts/wrong'
import { t } from '../../text/text'
import { focusProblem, ParamsField } from '../flows/form/params-field'
import { useParams } from '../flows/form/use-params'
import { beginnings, type From, type Past, splitOf } from './fork'

const NAMED_MAX = 20

/** `task`: the one that was chosen before, if any. */
export function Again({ past, task, onClose }: { past: Past; task: string | null; onClose: () => void }): JSX.Element {
  const { run } = past
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  const known = flows.data?.find((one) => one.flow_name === run.flow_name)?.params
  const params = useParams(known, run.params)
  const [from, setFrom] = useState<From>(
    task !== null ? { from: 'task', task } : { from: run.status === 'COMPLETED' ? 'start' : 'failed' },
  )
  const doing = useDoing()
  const keyOf = useKeyOf()
  const start = () => {
    const values = params.read()
    if (values === null) return focusProblem()
    const wanted = { ...from, ...(params.isChanged ? { params: values } : {}) }
    doing.run(async () => {
      const made = await send<{ run_id: string }>('POST', `/runs/${part(run.run_id)}/retry`, wanted, keyOf(wanted))
      onClose()
      go(`/runs/${part(made.run_id)}`)
    })
  }
  return (
    <Dialog title={t('run.againTitle', { flow: run.flow_name })} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          start()
        }}
      >
        <Beginning past={past} task={task} from={from} setFrom={setFrom} />
        <Consequence past={past} from={from} changed={params.isChanged} />
        <ParamsField form={params} known={known} />
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {t('do.close')}
          </button>
          <button type="submit" className="main" disabled={doing.busy}>
            {t('run.againDo')}
          </button>
        </div>
      </form>
    </Dialog>
  )
}

function Beginning({
  past,
  task,
  from,
  setFrom,
}: {
  past: Past
  task: string | null
  from: From
  setFrom: (from: From) => void
}): JSX.Element {
  const id = useId()
  const names = useMemo(() => beginnings(past), [past])
  // Without anything that is left to execute there is nothing to resume.
  const resumes = useMemo(() => splitOf(past, { from: 'failed' })?.again.length !== 0, [past])
  const chosen = from.from === 'task' ? from.task : (task ?? names[0] ?? '')
  // The focus begins at what is chosen.
  const first = (one: From['from']) => (from.from === one ? true : undefined)
  const offered = chosen === '' || names.includes(chosen) ? names : [chosen, ...names]
  return (
    <div className="choices">
      {resumes && (
        <label>
          <input
            type="radio"
            name="from"
            data-first={first('failed')}
            checked={from.from === 'failed'}
            onChange={() => setFrom({ from: 'failed' })}
          />
          {t('run.againSame')}
        </label>
      )}
      <label>
        <input
          type="radio"
          name="from"
          data-first={first('start')}
          checked={from.from === 'start'}
          onChange={() => setFrom({ from: 'start' })}
        />
        {t('run.againStart')}
      </label>
      <div className="from-task">
        <label htmlFor={id}>
          <input
            id={id}
            type="radio"
            name="from"
            data-first={first('task')}
            checked={from.from === 'task'}
            disabled={offered.length === 0}
            onChange={() => setFrom({ from: 'task', task: chosen })}
          />
          {t('run.againTask')}
        </label>
        <select
          aria-label={t('run.againTask')}
          value={chosen}
          disabled={offered.length === 0}
          onChange={(event) => setFrom({ from: 'task', task: event.target.value })}
        >
          {offered.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      </div>
    </div>
  )
}

/** Before it is done: what will be executed, what will not, and which parameters that had. */
function Consequence({ past, from, changed }: { past: Past; from: From; changed: boolean }): JSX.Element {
  const split = useMemo(() => splitOf(past, from), [past, from])
  if (split === null)
    return (
      <p className="faint-text consequence" role="status">
        {t('run.againUnordered')}
      </p>
    )
  return (
    <div className="consequence" role="status">
      <p data-part="again">
        {split.again.length
          ? t('run.againExecuted', { n: split.again.length, tasks: named(split.again) })
          : t('run.againNothing')}
      </p>
      {split.kept.length > 0 && (
        <p data-part="kept">{t('run.againKept', { n: split.kept.length, tasks: named(split.kept) })}</p>
      )}
      {changed && split.kept.length > 0 && (
        <p>
          <b>{t('run.againOldParams')}</b>
        </p>
      )}
    </div>
  )
}

function named(tasks: string[]): string {
  return tasks.slice(0, NAMED_MAX).join(', ') + (tasks.length > NAMED_MAX ? ', …' : '')
}
