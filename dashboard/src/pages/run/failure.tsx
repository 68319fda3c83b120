// Why a run failed, before everything else: the exception and the traceback of the task that failed.
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { Run } from '../../api/types'
import { useDoing } from '../../live/doing'
import { rewrite } from '../../live/place'
import { CopyButton } from '../../parts/copy'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { t } from '../../text/text'
import { raisedIn } from './exception'
import { stateOf } from './story'

export function Failure({ run }: { run: Run }): JSX.Element | null {
  if (!run.error) return null
  const task = failedTask(run)
  if (task !== null && stateOf(run, task) === 'REJECTED') return <Rejection run={run} task={task} />
  const traceback = task === null ? null : (run.task_records?.[task]?.traceback ?? null)
  const raised = traceback === null ? null : raisedIn(traceback)
  return (
    <section className="run-error wrong" aria-label={t('run.error')}>
      <div className="run-error-head">
        <strong>{task === null ? t('run.error') : t('run.failedTask', { task })}</strong>
        {raised && <code className="exception">{raised.type}</code>}
        <span className="run-error-actions">
          {task !== null && <ShowInLog run={run} task={task} />}
          <CopyButton text={traceback ?? run.error} label={t('run.copyError')} />
        </span>
      </div>
      <pre className="run-error-text" tabIndex={0}>
        {raised?.message || run.error}
      </pre>
      {traceback !== null && (
        <details open>
          <summary>{t('run.traceback')}</summary>
          <pre className="traceback" tabIndex={0}>
            {traceback}
          </pre>
        </details>
      )}
    </section>
  )
}

function Rejection({ run, task }: { run: Run; task: string }): JSX.Element {
  const { by, comment } = run.task_records?.[task] ?? {}
  return (
    <section className="run-error wrong" aria-label={t('run.error')}>
      <strong>{by ? t('run.rejectedBy', { task, by }) : t('run.rejected', { task })}</strong>
      {comment && <blockquote className="comment">{comment}</blockquote>}
    </section>
  )
}

/** Where the log reports the failure of the task. */
function ShowInLog({ run, task }: { run: Run; task: string }): JSX.Element {
  const doing = useDoing()
  const show = async () => {
    try {
      const line = await failureLine(run.run_id, task)
      rewrite({ tab: 'log', task, level: null, line: line === null ? null : String(line) })
      document.getElementById('panel')?.scrollIntoView({ block: 'nearest' })
    } catch (error) {
      say(sentence(error), true)
    }
  }
  return (
    <button type="button" className="small" disabled={doing.busy} onClick={() => doing.run(show)}>
      {t('run.showInLog')}
    </button>
  )
}

type Found = { entries: { seq: number }[] }

/** The last attempt counts. */
async function failureLine(id: string, task: string): Promise<number | null> {
  const page = await get<Found>(`/runs/${part(id)}/logs`, { q: `task ${task} failed`, task, limit: 1000 })
  return page.entries.at(-1)?.seq ?? null
}

export function failedTask(run: Run): string | null {
  return Object.entries(run.tasks).find(([, state]) => state === 'FAILED')?.[0] ?? null
}
