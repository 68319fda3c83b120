// A printed line with its colours: escape codes become classes, never styles or markup. Matches are marked.
import Anser from 'anser'
import type { JSX } from 'react'
import { withHits } from './log-view'

const ESCAPE = '\u001b'

export function Ansi({ text, sought = '' }: { text: string; sought?: string }): JSX.Element {
  if (!text.includes(ESCAPE) && sought === '') return <>{text}</>
  return (
    <>
      {withHits(coloured(text), sought).map(({ text, className, hit }, number) =>
        hit ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text have no name, and keep their order
          <mark key={number} className={className}>
            {text}
          </mark>
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text have no name, and keep their order
          <span key={number} className={className}>
            {text}
          </span>
        ),
      )}
    </>
  )
}

function coloured(text: string): { text: string; className: string }[] {
  if (!text.includes(ESCAPE)) return [{ text, className: '' }]
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true, json: true }).map((one) => ({
    text: one.content,
    className: [one.fg, one.bg && `${one.bg}-bg`, ...(one.decorations ?? []).map((name) => `ansi-${name}`)]
      .filter(Boolean)
      .join(' '),
  }))
}
