// A table that is wider than the page scrolls in a box of its own, by keyboard too.
import type { JSX, ReactNode } from 'react'

export function TableBox({ label, children }: { label: string; children: ReactNode }): JSX.Element {
  return (
    <div className="table-box" role="region" aria-label={label} tabIndex={0}>
      <table>{children}</table>
    </div>
  )
}
