// A date with its time, between the field of the browser, which has no zone, and ISO 8601. Pure.

const pad = (value: number, size = 2) => String(value).padStart(size, '0')

/** As the field of the browser has it, by the clock of the reader. A text without a zone is taken as it is. */
export function localOf(text: string): string {
  const isZoned = /(?:z|[+-]\d\d:?\d\d)$/i.test(text)
  const at = new Date(text)
  if (!isZoned || Number.isNaN(at.getTime())) return text.slice(0, 19)
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`
  return `${day}T${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`
}

/** With the offset of the reader's zone at that instant. */
export function momentOf(local: string): string {
  const at = new Date(local)
  if (local === '' || Number.isNaN(at.getTime())) return local
  const minutes = -at.getTimezoneOffset()
  const size = Math.abs(minutes)
  const whole = local.length === 16 ? `${local}:00` : local
  return `${whole}${minutes < 0 ? '-' : '+'}${pad(Math.floor(size / 60))}:${pad(size % 60)}`
}
