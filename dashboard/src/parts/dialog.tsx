// A question in front of the page: the browser's own dialog, so focus and Escape are right.
import { type JSX, type ReactNode, useEffect, useRef } from 'react'
import { t } from '../text/text'

const FIRST = 'form :is(input:not([type=radio], [type=checkbox], [type=file]), textarea, select), .buttons button'

export function Dialog(props: {
  title: string
  onClose: () => void
  children: ReactNode
  wide?: boolean
}): JSX.Element {
  const shown = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = shown.current
    if (dialog && !dialog.open) {
      dialog.showModal()
      // The first thing to fill in, not the cross that comes before it.
      const first = dialog.querySelector<HTMLElement>('[data-first]') ?? dialog.querySelector<HTMLElement>(FIRST)
      first?.focus()
    }
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={shown}
      className={props.wide ? 'wide' : undefined}
      aria-labelledby="dialog-title"
      onCancel={props.onClose}
    >
      <header>
        <h2 id="dialog-title">{props.title}</h2>
        <button type="button" className="plain" onClick={props.onClose} aria-label={t('do.close')}>
          ×
        </button>
      </header>
      {props.children}
    </dialog>
  )
}
