// A question before something that is not easily undone. The safe answer has the focus, and Escape is the same.
import type { JSX, ReactNode } from 'react'
import { useDoing } from '../live/doing'
import { short } from '../text/format'
import { t } from '../text/text'
import { Dialog } from './dialog'
import { Wrong } from './wrong'

type Asked = {
  title: string
  safe: string
  go: string
  /** How the button looks that does it. */
  goes?: 'danger' | 'main'
  act: () => Promise<unknown>
  onClose: () => void
  children: ReactNode
}

/** It closes when it is done; what went wrong is said in it. */
export function Confirm({ title, safe, go, goes = 'danger', act, onClose, children }: Asked): JSX.Element {
  const doing = useDoing()
  const confirm = () =>
    doing.run(async () => {
      await act()
      onClose()
    })
  return (
    <Dialog title={title} onClose={onClose}>
      <div className="stack">
        {children}
        {doing.error !== null && <Wrong error={doing.error} />}
        <div className="buttons">
          <button type="button" onClick={onClose}>
            {safe}
          </button>
          <button type="button" className={goes} disabled={doing.busy} onClick={confirm}>
            {go}
          </button>
        </div>
      </div>
    </Dialog>
  )
}

const FLOWS_MAX = 8
const IDS_MAX = 6

/** What is meant: flows with how many of each, and the first ids. */
export function Meant({ items }: { items: { flow: string | null; id: string | null }[] }): JSX.Element {
  const sums = new Map<string, number>()
  for (const { flow } of items) sums.set(flow ?? '–', (sums.get(flow ?? '–') ?? 0) + 1)
  const flows = [...sums].sort((one, other) => other[1] - one[1])
  const ids = items.flatMap(({ id }) => (id === null ? [] : [id]))
  return (
    <div className="meant">
      <ul aria-label={t('runs.flow')}>
        {flows.slice(0, FLOWS_MAX).map(([flow, sum]) => (
          <li key={flow}>
            <b>{flow}</b> × {sum}
          </li>
        ))}
        {flows.length > FLOWS_MAX && <li>{t('confirm.moreFlows', { n: flows.length - FLOWS_MAX })}</li>}
      </ul>
      <p className="mono faint-text">
        {ids.slice(0, IDS_MAX).map(short).join(', ')}
        {ids.length > IDS_MAX && ` ${t('confirm.more', { n: ids.length - IDS_MAX })}`}
      </p>
    </div>
  )
}
