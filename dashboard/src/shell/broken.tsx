// A page that could not be loaded or drawn: it says so, and the frame around it stays usable.
import { Component, type JSX, type ReactNode, useEffect, useRef } from 'react'
import { useCell } from '../live/cell'
import { connection } from '../live/news'
import { t } from '../text/text'

/** The script of a page did not come: the gateway was away, or it has another version by now. */
export class NotLoaded extends Error {}

export class Broken extends Component<{ children: ReactNode }, { error: unknown }> {
  override state: { error: unknown } = { error: null }

  static getDerivedStateFromError(error: unknown): { error: unknown } {
    return { error }
  }

  override render(): ReactNode {
    const { error } = this.state
    return error === null ? this.props.children : <Sorry error={error} />
  }
}

function Sorry({ error }: { error: unknown }): JSX.Element {
  const { state } = useCell(connection)
  const before = useRef(state)
  useEffect(() => {
    const isBack = before.current !== 'open' && state === 'open'
    before.current = state
    // Only when the gateway is there again: a script that stays away must not load the page for ever.
    if (isBack && error instanceof NotLoaded) location.reload()
  }, [state, error])
  return (
    <div className="wrong" role="alert">
      <strong>{t('broken.title')}</strong>
      <p>{error instanceof NotLoaded ? t('broken.notLoaded') : t('broken.defect', { why: String(error) })}</p>
      <button type="button" onClick={() => location.reload()}>
        {t('broken.reload')}
      </button>
    </div>
  )
}
