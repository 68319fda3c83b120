// Which workers a run is for: the tag that will be sent stands in the field, and what is known against it is said.
import { type JSX, useState } from 'react'
import type { KnownFlow, Worker } from '../../api/types'
import { useCell } from '../../live/cell'
import { t } from '../../text/text'
import { awaited, useWorkers } from '../workers/use-workers'

export const TAG_DEFAULT = 'default'

/** `isPending`: what is proposed may still change, for it is not known yet which workers there are. */
export type Tag = {
  value: string
  set: (value: string) => void
  isPending: boolean
  isUnknown: boolean
  isUnserved: boolean
  offered: string[]
}

/** Until something is typed it is the flow's own. `knows`: whether flows have their own tags here. */
export function useTag(flow: KnownFlow | undefined, name: string, knows = true): Tag {
  const [typed, setTyped] = useState<string | null>(null)
  const workers = useWorkers()
  const isAwaited = useCell(awaited)
  const value = typed ?? tagOf(flow, workers)
  return {
    value,
    set: setTyped,
    isPending: typed === null && isAwaited,
    isUnknown: knows && name !== '' && typed === null && knownTags(flow).length === 0,
    isUnserved: value !== '' && workers !== null && !isServed(value, workers),
    offered: [...new Set([...knownTags(flow), ...(workers ?? []).filter(takesRuns).flatMap((one) => one.tags)])],
  }
}

/** Of the tags of a flow, the one of its last run first, the one that a worker serves now. */
export function tagOf(flow: KnownFlow | undefined, workers: Worker[] | null): string {
  const known = knownTags(flow)
  return known.find((tag) => workers !== null && isServed(tag, workers)) ?? known[0] ?? TAG_DEFAULT
}

function knownTags(flow: KnownFlow | undefined): string[] {
  return flow ? [flow.last_tag, ...flow.tags].filter((tag) => tag !== null) : []
}

function isServed(tag: string, workers: Worker[]): boolean {
  return workers.some((one) => takesRuns(one) && one.tags.includes(tag))
}

function takesRuns(worker: Worker): boolean {
  return (worker.state === 'RUNNING' || worker.state === 'IDLE') && !worker.draining
}

export function TagField({ tag }: { tag: Tag }): JSX.Element {
  return (
    <div className="field-with-hint">
      <label className="field">
        {t('flows.submit.tag')}
        {/* Not editable while it may change by itself, under the reader's cursor. */}
        <input
          value={tag.value}
          required
          readOnly={tag.isPending}
          list="known-tags"
          onChange={(event) => tag.set(event.target.value)}
        />
        <datalist id="known-tags">
          {tag.offered.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      </label>
      <div role="status">
        {tag.isUnknown && <p className="hint">{t('flows.tag.unknown', { tag: tag.value })}</p>}
        {tag.isUnserved && (
          <p className="hint warning" data-warning="unserved">
            {t('flows.tag.unserved', { tag: tag.value })}
          </p>
        )}
      </div>
    </div>
  )
}
