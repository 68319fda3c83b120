// Words of the address that mean nothing here: they are left out, and that is said.
import type { JSX } from 'react'
import { t } from '../text/text'

export function LeftOut({ words, clear }: { words: string[]; clear: string }): JSX.Element | null {
  if (words.length === 0) return null
  return (
    <p className="notice" role="status">
      <span>{t('filters.unknown', { what: words.join(', ') })}</span>
      <a className="button small" href={clear}>
        {t('runs.clear')}
      </a>
    </p>
  )
}
