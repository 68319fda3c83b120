// Something to copy: a command in an empty page, an id in a heading.
import { Fragment, type JSX, useState } from 'react'
import { t } from '../text/text'

/** `words`: on the button, in the place of "Copy". */
export function CopyButton(props: { text: string; label?: string; words?: string }): JSX.Element {
  const { text, label, words } = props
  const [done, setDone] = useState(false)
  const copy = async () => {
    await navigator.clipboard?.writeText(text).catch(() => undefined)
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return (
    <button type="button" className="small" onClick={() => void copy()} aria-label={label}>
      {done ? t('do.copied') : (words ?? t('do.copy'))}
    </button>
  )
}

const SERVER_DEFAULT = 'http://127.0.0.1:8000'

/** A command of `pyoco-client` that reaches this gateway, wherever the page was loaded from. */
export function clientCommand(words: string): string {
  const server = new URL('.', location.href).href.replace(/\/$/, '')
  return server === SERVER_DEFAULT ? `pyoco-client ${words}` : `pyoco-client --server ${server} ${words}`
}

export function Command({ text }: { text: string }): JSX.Element {
  return (
    <div className="command">
      <pre tabIndex={0}>
        {/* Lines break between words only: `--limit` stays in one piece. */}
        {text.split(' ').map((word, number) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: words of one command, which keep their order
          <Fragment key={number}>
            {number > 0 && ' '}
            <span className="word">{word}</span>
          </Fragment>
        ))}
      </pre>
      <CopyButton text={text} />
    </div>
  )
}
