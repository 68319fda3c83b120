// What is done to many runs at once: asked before, then a few at a time, with what came of it.
import { type JSX, useMemo, useState } from 'react'
import { part, send } from '../../api/client'
import { type RunSummary, TERMINAL } from '../../api/types'
import { type Keys, useKeys } from '../../live/keys'
import { Confirm, Meant } from '../../parts/confirm'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { t } from '../../text/text'

const AT_ONCE = 6

type Verb = 'cancel' | 'retry'

export function Bulk({
  selected,
  rows,
  done,
}: {
  selected: ReadonlySet<string>
  rows: RunSummary[]
  done: () => void
}): JSX.Element {
  const [progress, setProgress] = useState<[number, number] | null>(null)
  // Not again for each step of the progress: there may be 100,000 of them.
  const [live, ended] = useMemo(() => {
    const chosen = rows.filter((run) => selected.has(run.run_id))
    const isLive = (run: RunSummary) => !TERMINAL.has(run.status)
    return [chosen.filter(isLive), chosen.filter((run) => !isLive(run))]
  }, [rows, selected])
  // What is asked about stays what it was when it was asked.
  const [asking, setAsking] = useState<{ verb: Verb; runs: RunSummary[] } | null>(null)
  const act = async ({ verb, runs }: { verb: Verb; runs: RunSummary[] }) => {
    const ids = runs.map((run) => run.run_id)
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
  const cancelAll = live.length && !progress ? () => setAsking({ verb: 'cancel', runs: live }) : undefined
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
            <button type="button" onClick={() => setAsking({ verb: 'retry', runs: ended })}>
              {t('runs.bulkRetry', { n: ended.length })}
            </button>
          )}
        </>
      )}
      <button type="button" className="plain" onClick={done}>
        {t('runs.unselect')}
      </button>
      {asking && (
        <Ask
          asking={asking}
          act={() => {
            setAsking(null)
            void act(asking)
          }}
          onClose={() => setAsking(null)}
        />
      )}
    </div>
  )
}

function Ask({
  asking,
  act,
  onClose,
}: {
  asking: { verb: Verb; runs: RunSummary[] }
  act: () => void
  onClose: () => void
}): JSX.Element {
  const { verb, runs } = asking
  const n = runs.length
  const words =
    verb === 'cancel'
      ? {
          title: t('bulk.cancelTitle', { n }),
          text: t('bulk.cancelText'),
          safe: t('bulk.keep'),
          go: t('runs.bulkCancel', { n }),
        }
      : {
          title: t('bulk.retryTitle', { n }),
          text: t('bulk.retryText'),
          safe: t('do.close'),
          go: t('runs.bulkRetry', { n }),
        }
  return (
    <Confirm title={words.title} safe={words.safe} go={words.go} act={() => Promise.resolve(act())} onClose={onClose}>
      <p>{words.text}</p>
      <Meant items={runs.map((run) => ({ flow: run.flow_name, id: run.run_id }))} />
    </Confirm>
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
