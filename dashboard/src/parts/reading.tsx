// How something that is read stands while it is not there, or could not be read again: under way, or failed with a button.
import { type QueryClient, type UseQueryResult, useQueryClient } from '@tanstack/react-query'
import type { JSX } from 'react'
import { forgetFailures } from '../api/client'
import { t } from '../text/text'
import { Wrong } from './wrong'

/** The error is shown from the first failure on, also while the request is repeated by itself. */
export function Reading({
  query,
  quiet = false,
}: {
  query: Pick<UseQueryResult, 'error' | 'failureReason' | 'isLoading'>
  quiet?: boolean
}): JSX.Element | null {
  const queries = useQueryClient()
  const error = query.error ?? query.failureReason
  if (error) return <Wrong error={error} again={() => readAgain(queries)} />
  return query.isLoading && !quiet ? <p className="loading">{t('loading')}</p> : null
}

/** Everything on the page that failed, at once: where one read failed, others mostly have too. */
function readAgain(queries: QueryClient): void {
  forgetFailures()
  const failed = queries
    .getQueryCache()
    .findAll({ predicate: ({ state }) => state.error !== null || state.fetchFailureCount > 0 })
  for (const { queryKey } of failed) {
    // One that waits for its next try would go on waiting.
    void queries
      .cancelQueries({ queryKey, exact: true })
      .then(() => queries.refetchQueries({ queryKey, exact: true, type: 'active' }))
  }
}
