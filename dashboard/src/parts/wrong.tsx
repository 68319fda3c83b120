// What went wrong, in the server's own words.
import type { JSX } from 'react'
import { ApiError } from '../api/client'
import { t } from '../text/text'

export function sentence(error: unknown): string {
  if (error instanceof ApiError) return error.status === 0 ? t('wrong.away') : error.message
  return error instanceof Error ? error.message : String(error)
}

export function Wrong({ error, again }: { error: unknown; again?: () => void }): JSX.Element {
  const problems = error instanceof ApiError ? error.problems : []
  return (
    <div className="wrong" role="alert">
      <strong>{t('wrong.title')}</strong>
      {problems.length === 0 && <p>{sentence(error)}</p>}
      {problems.length > 0 && (
        <ul>
          {problems.map((one, number) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: two problems may read the same, and they keep their order
            <li key={number}>
              {one.line !== undefined && (
                <span className="mono">{t('flows.line', { line: one.line, column: one.column ?? 0 })}: </span>
              )}
              {one.msg}
            </li>
          ))}
        </ul>
      )}
      {again && (
        <button type="button" onClick={again}>
          {t('do.again')}
        </button>
      )}
    </div>
  )
}
