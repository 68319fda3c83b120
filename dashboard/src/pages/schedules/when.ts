// When a schedule is due, as it is typed and as the API takes it. Pure.

export const KINDS = ['cron', 'interval', 'once'] as const
export type Kind = (typeof KINDS)[number]
/** `at`: by the clock of whoever types it, as a field of the browser has it. */
export type When = { kind: Kind; cron: string; zone: string; seconds: string; at: string }

export function whenToBegin(): When {
  return {
    kind: 'cron',
    cron: '0 3 * * *',
    zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    seconds: '3600',
    at: '',
  }
}

export function whenGiven(when: When): Record<string, string | number> {
  switch (when.kind) {
    case 'cron':
      return { cron: when.cron, ...(when.zone ? { timezone: when.zone } : {}) }
    case 'interval':
      return { interval_seconds: Number(when.seconds) }
    case 'once':
      return { run_at: new Date(when.at).toISOString() }
  }
}
