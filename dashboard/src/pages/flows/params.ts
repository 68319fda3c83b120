// Parameters as somebody typed them: an object, or a sentence that says what is wrong.
import type { Param } from '../../api/types'
import { t } from '../../text/text'

/** What a form begins with: every default, and over them what the last run was given. */
export function paramsToBegin(
  known: Param[] | null | undefined,
  last: Record<string, unknown> | undefined,
): Record<string, unknown> {
  const defaults = (known ?? []).filter((one) => 'default' in one).map((one) => [one.name, one.default] as const)
  return { ...Object.fromEntries(defaults), ...last }
}

export function paramsIn(text: string): Record<string, unknown> {
  if (text.trim() === '') return {}
  let read: unknown
  try {
    read = JSON.parse(text)
  } catch (error) {
    throw new Error(t('flows.submit.badJson', { why: (error as Error).message }))
  }
  if (typeof read !== 'object' || read === null || Array.isArray(read)) {
    throw new Error(t('flows.submit.object', { example: '{"name": "you"}' }))
  }
  return read as Record<string, unknown>
}
