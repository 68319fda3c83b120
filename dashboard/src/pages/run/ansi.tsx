// A printed line with its colours: escape codes become classes, never styles or markup.
import Anser from 'anser'
import type { JSX } from 'react'

const ESCAPE = '\u001b'

export function Ansi({ text }: { text: string }): JSX.Element {
  if (!text.includes(ESCAPE)) return <>{text}</>
  const parts = Anser.ansiToJson(text, { use_classes: true, remove_empty: true, json: true })
  return (
    <>
      {parts.map((one, number) => (
        <span
          // biome-ignore lint/suspicious/noArrayIndexKey: parts of one text have no name, and keep their order
          key={number}
          className={[one.fg, one.bg && `${one.bg}-bg`, ...(one.decorations ?? []).map((name) => `ansi-${name}`)]
            .filter(Boolean)
            .join(' ')}
        >
          {one.content}
        </span>
      ))}
    </>
  )
}
