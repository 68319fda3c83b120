// Which keys there are.
import type { JSX } from 'react'
import { Dialog } from '../parts/dialog'
import { type Key, t } from '../text/text'
import { GO_KEYS, PAGES } from './shell'

const KEYS: [string, Key][] = [
  ['/', 'keys.search'],
  ['j', 'keys.down'],
  ['k', 'keys.up'],
  ['Enter', 'keys.open'],
  ['x', 'keys.select'],
  ['c', 'keys.cancel'],
  ['Esc', 'keys.leave'],
  ['?', 'keys.help'],
]

export function KeyHelp({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title={t('keys.title')} onClose={onClose}>
      <dl className="keys">
        {KEYS.map(([key, text]) => (
          <Row key={key} keys={[key]} text={t(text)} />
        ))}
        {PAGES.map((page) => (
          <Row key={page} keys={['g', GO_KEYS[page]]} text={t('keys.go', { page: t(`nav.${page}` as Key) })} />
        ))}
      </dl>
    </Dialog>
  )
}

function Row({ keys, text }: { keys: string[]; text: string }): JSX.Element {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{text}</dd>
    </div>
  )
}
