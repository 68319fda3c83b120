// One dead letter, with its message.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { Letter } from '../../api/types'
import { Dialog } from '../../parts/dialog'
import { Json } from '../../parts/json'
import { Reading } from '../../parts/reading'
import { Ago } from '../../parts/time'
import { short } from '../../text/format'
import { t } from '../../text/text'

export function LetterDialog({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  const letter = useQuery({ queryKey: ['dlq', id], queryFn: () => get<Letter>(`/dlq/${part(id)}`) })
  return (
    <Dialog title={t('dlq.letter', { id })} onClose={onClose} wide>
      <Reading query={letter} />
      {letter.data && (
        <div className="stack">
          <dl className="facts">
            <dt>{t('dlq.reason')}</dt>
            <dd>{letter.data.reason}</dd>
            <dt>{t('dlq.when')}</dt>
            <dd>
              <Ago at={letter.data.timestamp} />
            </dd>
            <dt>{t('dlq.deliveries')}</dt>
            <dd>{letter.data.num_delivered ?? '–'}</dd>
            {letter.data.redriven_as && (
              <>
                <dt>{t('dlq.redriven')}</dt>
                <dd>
                  <a className="mono" href={`#/runs/${part(letter.data.redriven_as)}`}>
                    {short(letter.data.redriven_as)}
                  </a>
                </dd>
              </>
            )}
          </dl>
          {letter.data.error && (
            <pre className="wrong" tabIndex={0}>
              {letter.data.error}
            </pre>
          )}
          <h3>{t('dlq.payload')}</h3>
          <Json value={readable(letter.data.payload)} label={t('dlq.payload')} />
        </div>
      )}
    </Dialog>
  )
}

function readable(payload: string | null | undefined): unknown {
  try {
    return JSON.parse(payload ?? 'null')
  } catch {
    return payload
  }
}
