// Small bars in a row: how much there was, minute by minute. Drawn plainly; the words are in its label.
import type { JSX } from 'react'

export type Bar = { key: number | string; parts: { tone: string; value: number }[]; title: string }

const HEIGHT = 28

/** `slots`: for so many there is room; fewer stand at the right. */
export function Bars({
  bars,
  label,
  width = 240,
  slots = bars.length,
}: {
  bars: Bar[]
  label: string
  width?: number
  slots?: number
}): JSX.Element {
  const most = Math.max(...bars.map((bar) => bar.parts.reduce((sum, part) => sum + part.value, 0)), 0) || 1
  const step = width / Math.max(1, slots)
  const before = slots - bars.length
  return (
    <svg className="bars" viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label} preserveAspectRatio="none">
      <line x1="0" x2={width} y1={HEIGHT - 0.5} y2={HEIGHT - 0.5} className="floor" />
      {bars.map((bar, number) => {
        let top = HEIGHT
        return bar.parts.map(({ tone, value }) => {
          const height = value === 0 ? 0 : Math.max(1.5, (value / most) * (HEIGHT - 2))
          top -= height
          const place = { x: (before + number) * step, y: top, width: Math.max(1, step - 1), height }
          return value === 0 ? null : (
            <rect key={`${bar.key} ${tone}`} className={`bar tone-${tone}`} {...place}>
              <title>{bar.title}</title>
            </rect>
          )
        })
      })}
    </svg>
  )
}
