// One dead letter, with its message.
import { useQuery } from '@tanstack/react-query'
import type { JSX } from 'react'
import { get, part } from '../../api/client'
import type { Letter } from '../../api/types'
import { useNow } from '../../live/now'
import { Dialog } from '../../parts/dialog'
import { Json } from '../../parts/json'
import { Reading } from '../../parts/reading'
import { Ago } from '../../parts/time'
import { ago, short } from '../../text/format'
import { t, word } from '../../text/text'

export function LetterDialog({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  const letter = useQuery({ queryKey: ['dlq', id], queryFn: () => get<Letter>(`/dlq/${part(id)}`) })
  return (
    <Dialog title={t('dlq.letter', { id })} onClose={onClose} wide>
      <Reading query={letter} />
      {letter.data && (
        <div className="stack">
          <dl className="facts">
            <dt>{t('dlq.reason')}</dt>
            <dd>
              {reasonWord(letter.data.reason)} <span className="mono">({letter.data.reason})</span>
            </dd>
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
          {letter.data.dismissed && (
            <p>
              <DismissedBy dismissed={letter.data.dismissed} />
            </p>
          )}
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

/** What a reason code means, in words. */
export function reasonWord(reason: string): string {
  return word(`dlq.why.${reason}`, reason)
}

export function DismissedBy({ dismissed }: { dismissed: NonNullable<Letter['dismissed']> }): JSX.Element {
  const at = ago(dismissed.at, useNow())
  const said = dismissed.by ? t('dlq.dismissedBy', { at, by: dismissed.by }) : t('dlq.dismissedAt', { at })
  return <span>{dismissed.note ? `${said}: ${dismissed.note}` : said}</span>
}
