// Something to copy: a command in an empty page, an id in a heading.
import { type JSX, useState } from 'react'
import { t } from '../text/text'

export function CopyButton({ text, label }: { text: string; label?: string }): JSX.Element {
  const [done, setDone] = useState(false)
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined)
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return (
    <button type="button" className="small" onClick={() => void copy()} aria-label={label}>
      {done ? t('do.copied') : t('do.copy')}
    </button>
  )
}

export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div className="command">
      <pre tabIndex={0}>{text}</pre>
      <CopyButton text={text} />
    </div>
  )
}
