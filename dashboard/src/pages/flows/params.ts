// Parameters as somebody typed them: an object, or a sentence that says what is wrong.
import { t } from '../../text/text'

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
