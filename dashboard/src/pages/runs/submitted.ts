// When the runs of a list were submitted: the words of the address, the fields of the form, and Unix seconds. Pure.

/** The address is shared across time zones: instants in it are UTC, to the minute. */
const WORD = /^\d{4}-\d\d-\d\dT\d\d:\d\dZ$/
const MINUTE_CHARS = 16

export function isInstant(word: string): boolean {
  return WORD.test(word) && !Number.isNaN(Date.parse(word))
}

export function secondsOf(word: string): number | undefined {
  return isInstant(word) ? Date.parse(word) / 1000 : undefined
}

/** What a field of the form holds, in the reader's own time, as a word of the address. Empty: none. */
export function wordOf(field: string): string {
  const at = field === '' ? Number.NaN : Date.parse(field)
  return Number.isNaN(at) ? '' : `${new Date(at).toISOString().slice(0, MINUTE_CHARS)}Z`
}

export function fieldOf(word: string): string {
  if (!isInstant(word)) return ''
  const date = new Date(word)
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, MINUTE_CHARS)
}
