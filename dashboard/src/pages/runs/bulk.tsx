// What is done to many runs at once: a few at a time, with what came of it.
import { type JSX, useMemo, useState } from 'react'
import { part, send } from '../../api/client'
import { type RunSummary, TERMINAL } from '../../api/types'
import { type Keys, useKeys } from '../../live/keys'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { t } from '../../text/text'

const AT_ONCE = 6

export function Bulk({ selected, rows, done }: { selected: ReadonlySet<string>; rows: RunSummary[]; done: () => void }): JSX.Element {
  const [progress, setProgress] = useState<[number, number] | null>(null)
  const chosen = rows.filter((run) => selected.has(run.run_id))
  const live = chosen.filter((run) => !TERMINAL.has(run.status)).map((run) => run.run_id)
  const ended = chosen.filter((run) => TERMINAL.has(run.status)).map((run) => run.run_id)
  const act = async (ids: string[], verb: string) => {
    const failed: unknown[] = []
    let finished = 0
    setProgress([0, ids.length])
    await each(ids, AT_ONCE, async (id) => {
      await send('POST', `/runs/${part(id)}/${verb}`, {}).catch((error: unknown) => failed.push(error))
      finished += 1
      setProgress([finished, ids.length])
    })
    setProgress(null)
    if (failed.length) say(t('runs.bulkFailed', { n: failed.length, why: sentence(failed[0]) }), true)
    else say(t('runs.bulkDone', { done: ids.length, n: ids.length }))
    done()
  }
  const cancelAll = live.length ? () => void act(live, 'cancel') : undefined
  const keys: Keys = useMemo(() => ({ Escape: done, ...(cancelAll ? { c: cancelAll } : {}) }), [cancelAll, done])
  useKeys(keys)
  return (
    <div className="bulk" role="region" aria-label={t('runs.selected', { n: selected.size })}>
      <b>{t('runs.selected', { n: selected.size })}</b>
      {progress ? (
        <span role="status">{t('runs.bulkDone', { done: progress[0], n: progress[1] })}</span>
      ) : (
        <>
          {live.length > 0 && (
            <button type="button" className="danger" onClick={cancelAll}>
              {t('runs.bulkCancel', { n: live.length })}
            </button>
          )}
          {ended.length > 0 && (
            <button type="button" onClick={() => void act(ended, 'retry')}>
              {t('runs.bulkRetry', { n: ended.length })}
            </button>
          )}
        </>
      )}
      <button type="button" className="plain" onClick={done}>
        {t('runs.unselect')}
      </button>
    </div>
  )
}

/** Each of them, so many at a time. */
export async function each<T>(items: T[], atOnce: number, act: (item: T) => Promise<unknown>): Promise<void> {
  const queue = items.values()
  const work = async () => {
    for (const item of queue) await act(item)
  }
  await Promise.all(Array.from({ length: atOnce }, work))
}
