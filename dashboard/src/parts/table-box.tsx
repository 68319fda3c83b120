// A table that is wider than the page scrolls in a box of its own, by keyboard too. On a phone each row is a card, with
// the head of its column beside each value.
import { type JSX, type ReactNode, useEffect, useRef } from 'react'

export function TableBox({ label, children }: { label: string; children: ReactNode }): JSX.Element {
  const table = useRef<HTMLTableElement>(null)
  useEffect(() => {
    const shown = table.current
    if (shown === null) return
    nameCells(shown)
    const observer = new MutationObserver(() => nameCells(shown))
    observer.observe(shown, { childList: true, subtree: true })
    return () => observer.disconnect()
  }, [])
  return (
    <div className="table-box" role="region" aria-label={label} tabIndex={0}>
      <table className="card-rows" ref={table}>
        {children}
      </table>
    </div>
  )
}

/** The style sheet shows `data-label`. A cell of several columns, and one of actions, needs none. */
function nameCells(table: HTMLTableElement): void {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((head) =>
    head.querySelector('.unseen') ? '' : (head.textContent ?? '').trim(),
  )
  for (const body of table.tBodies) {
    for (const row of body.rows) {
      for (const cell of row.cells) {
        const label = cell.colSpan > 1 ? '' : (heads[cell.cellIndex] ?? '')
        if (cell.dataset.label !== label) cell.dataset.label = label
      }
    }
  }
}
