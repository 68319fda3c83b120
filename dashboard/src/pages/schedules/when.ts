// When a schedule is due, as it is typed and as the API takes it. Pure.

export const KINDS = ['cron', 'interval', 'once'] as const
/** Names of the API for when a schedule is due. */
export const FIELDS = ['cron', 'timezone', 'interval_seconds', 'run_at'] as const
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

/** Whether there is enough to ask when it would be due. */
export function isWhole(when: When): boolean {
  if (when.kind === 'cron') return when.cron.trim() !== ''
  if (when.kind === 'interval') return Number(when.seconds) > 0
  return !Number.isNaN(new Date(when.at).getTime())
}

export function zones(): string[] {
  return 'supportedValuesOf' in Intl ? Intl.supportedValuesOf('timeZone') : []
}
