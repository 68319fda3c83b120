// Icons of the pages in the navigation: one stroke, in the colour of the text.
import type { JSX } from 'react'

const PATHS: Record<string, string> = {
  runs: 'M2.5 4h11M2.5 8h11M2.5 12h7',
  approvals: 'M8 1.8a6.2 6.2 0 1 0 0 12.4A6.2 6.2 0 0 0 8 1.8ZM5.2 8.2l2 2 3.6-4',
  workers:
    'M3.5 3.5h9v9h-9zM6.2 6.2h3.6v3.6H6.2zM6 1.2v2.3M10 1.2v2.3M6 12.5v2.3M10 12.5v2.3M1.2 6h2.3M1.2 10h2.3M12.5 6h2.3M12.5 10h2.3',
  flows: 'M1.8 6h3.8v4H1.8zM10.4 2h3.8v4h-3.8zM10.4 10h3.8v4h-3.8zM5.6 8h2.2V4h2.6M7.8 8v4h2.6',
  schedules: 'M2.2 3.4h11.6v10.4H2.2zM2.2 6.6h11.6M5.4 1.6v3M10.6 1.6v3M8 8.6v2.2h2',
  wheels: 'M2 5l6-3 6 3v6l-6 3-6-3zM2 5l6 3 6-3M8 8v6',
  dlq: 'M1.8 3.4h12.4v9.2H1.8zM1.8 3.8 8 8.6l6.2-4.8',
  strategies: 'M2 13.5h12M3.5 11l3-4 2.5 2 4-5.5M10.4 3.5H13v2.6',
  system: 'M2 2.6h12v4.2H2zM2 9.2h12v4.2H2zM4.6 4.7h.1M4.6 11.3h.1',
}

export function Icon({ name }: { name: string }): JSX.Element {
  return (
    <svg className="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  )
}
