// What could not be delivered or started: by reason, one by one; redrive one or all, dismiss one with a note.
import { useQueryClient } from '@tanstack/react-query'
import { type JSX, useMemo, useState } from 'react'
import { part, send } from '../../api/client'
import type { Letter } from '../../api/types'
import { rewrite, usePlace } from '../../live/place'
import { reread } from '../../live/reread'
import { Confirm, Meant } from '../../parts/confirm'
import { Empty } from '../../parts/empty'
import { LeftOut } from '../../parts/notice'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { say } from '../../parts/toast'
import { sentence } from '../../parts/wrong'
import { number, short } from '../../text/format'
import { t } from '../../text/text'
import { each } from '../runs/bulk'
import { DismissDialog } from './dismiss'
import { DismissedBy, LetterDialog, reasonWord } from './letter'
import { isOpen, itemsOf, useLetters } from './letters'

const AT_ONCE = 4

export default function DeadLetters(): JSX.Element {
  const { query } = usePlace()
  const reason = query.get('reason') ?? ''
  const [looking, setLooking] = useState<string | null>(null)
  const [redriven, setRedriven] = useState<ReadonlyMap<string, string>>(new Map())
  const queries = useQueryClient()
  const withDismissed = query.get('dismissed') === '1'
  const [dismissing, setDismissing] = useState<Letter | null>(null)
  const pages = useLetters(withDismissed)
  const letters = useMemo(() => itemsOf(pages.data), [pages.data])
  const ofReason = letters.filter((letter) => letter.reason === reason)
  // A reason that no letter has is left out; while there are more letters to load it may yet come.
  const isUnknown = reason !== '' && letters.length > 0 && ofReason.length === 0 && !pages.hasNextPage
  const shown = reason && !isUnknown ? ofReason : letters
  const redrive = async (some: Letter[]) => {
    let done = 0
    const failed: unknown[] = []
    await each(some, AT_ONCE, async (letter) => {
      try {
        const made = await send<{ run_id: string }>('POST', `/dlq/${part(letter.id)}/redrive`, {})
        setRedriven((before) => new Map(before).set(letter.id, made.run_id))
        done += 1
      } catch (error) {
        failed.push(error)
      }
    })
    if (failed.length) say(t('runs.bulkFailed', { n: failed.length, why: sentence(failed[0]) }), true)
    else say(t('dlq.redrivenAll', { n: done }))
  }
  const [asking, setAsking] = useState<Letter[] | null>(null)
  const open = shown.filter((letter) => letter.run_id && isOpen(letter) && !redriven.has(letter.id))
  return (
    <Page
      title={t('dlq.title')}
      actions={
        <>
          <label className="check">
            <input
              type="checkbox"
              checked={withDismissed}
              onChange={() => rewrite({ dismissed: withDismissed ? null : '1' })}
            />{' '}
            {t('dlq.withDismissed')}
          </label>
          {open.length > 1 && (
            <button type="button" onClick={() => setAsking(open)}>
              {t('dlq.redriveAll', { n: number(open.length) })}
            </button>
          )}
        </>
      }
    >
      <Reading query={pages} />
      {pages.data && letters.length === 0 && (
        <Empty title={t('dlq.none.title')} text={t('dlq.none.text')}>
          <a className="button" href="#/runs?status=FAILED">
            {t('dlq.toRuns')}
          </a>
        </Empty>
      )}
      {isUnknown && <LeftOut words={[`reason=${reason}`]} clear="#/dlq" />}
      {letters.length > 0 && <Reasons letters={letters} reason={reason} />}
      {shown.length > 0 && (
        <List
          letters={shown}
          redriven={redriven}
          look={setLooking}
          redrive={(letter) => setAsking([letter])}
          dismiss={setDismissing}
        />
      )}
      {pages.hasNextPage && (
        <button type="button" onClick={() => void pages.fetchNextPage()}>
          {t('do.more')}
        </button>
      )}
      {asking && (
        <Confirm
          title={t('dlq.redriveTitle', { n: asking.length })}
          safe={t('do.close')}
          go={t('dlq.redriveDo', { n: asking.length })}
          act={() => redrive(asking)}
          onClose={() => setAsking(null)}
        >
          <p>{t('dlq.redriveText')}</p>
          <Meant items={asking.map((letter) => ({ flow: letter.flow_name, id: letter.run_id }))} />
        </Confirm>
      )}
      {dismissing && (
        <DismissDialog
          letter={dismissing}
          onClose={() => {
            setDismissing(null)
            void reread(queries, ['dlq'])
          }}
        />
      )}
      {looking && <LetterDialog id={looking} onClose={() => setLooking(null)} />}
    </Page>
  )
}

function Reasons({ letters, reason }: { letters: Letter[]; reason: string }): JSX.Element {
  const sums = new Map<string, number>()
  for (const letter of letters) sums.set(letter.reason, (sums.get(letter.reason) ?? 0) + 1)
  return (
    <div className="counts" role="group" aria-label={t('dlq.reason')}>
      <button type="button" aria-pressed={reason === ''} onClick={() => rewrite({ reason: null })}>
        {t('dlq.all')} <b>{number(letters.length)}</b>
      </button>
      {[...sums].map(([name, sum]) => (
        <button key={name} type="button" aria-pressed={reason === name} onClick={() => rewrite({ reason: name })}>
          {reasonWord(name)} <b>{number(sum)}</b>
        </button>
      ))}
    </div>
  )
}

function List(props: {
  letters: Letter[]
  redriven: ReadonlyMap<string, string>
  look: (id: string) => void
  redrive: (letter: Letter) => void
  dismiss: (letter: Letter) => void
}): JSX.Element {
  return (
    <TableBox label={t('dlq.title')}>
      <thead>
        <tr>
          <th scope="col">{t('dlq.when')}</th>
          <th scope="col">{t('dlq.reason')}</th>
          <th scope="col">{t('dlq.flow')}</th>
          <th scope="col">{t('dlq.run')}</th>
          <th scope="col">{t('dlq.error')}</th>
          <th scope="col">
            <span className="unseen">{t('dlq.redrive')}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {props.letters.map((letter) => {
          const again = props.redriven.get(letter.id) ?? letter.redriven_as
          return (
            <tr key={letter.id} data-letter={letter.id}>
              <td className="nowrap">
                <Ago at={letter.timestamp} />
              </td>
              <td className="nowrap" title={letter.reason}>
                {reasonWord(letter.reason)}
              </td>
              <td>{letter.flow_name ?? '–'}</td>
              <td className="mono">
                {letter.run_id ? <a href={`#/runs/${part(letter.run_id)}`}>{short(letter.run_id)}</a> : '–'}
              </td>
              <td>
                <span className="clip" title={letter.error ?? ''}>
                  {letter.error}
                </span>
                {letter.dismissed && (
                  <small>
                    <DismissedBy dismissed={letter.dismissed} />
                  </small>
                )}
              </td>
              <td className="right nowrap row-actions">
                <button
                  type="button"
                  className="small"
                  aria-label={`${t('dlq.look')} ${letter.id}`}
                  onClick={() => props.look(letter.id)}
                >
                  {t('dlq.look')}
                </button>{' '}
                {again ? (
                  <a className="button small" href={`#/runs/${part(again)}`}>
                    {t('dlq.redriven')} {short(again)}
                  </a>
                ) : (
                  letter.run_id && (
                    <button
                      type="button"
                      className="small"
                      aria-label={`${t('dlq.redrive')} ${letter.id}`}
                      onClick={() => props.redrive(letter)}
                    >
                      {t('dlq.redrive')}
                    </button>
                  )
                )}{' '}
                {!letter.dismissed && (
                  <button
                    type="button"
                    className="small"
                    aria-label={`${t('dlq.dismiss')} ${letter.id}`}
                    onClick={() => props.dismiss(letter)}
                  >
                    {t('dlq.dismiss')}
                  </button>
                )}
              </td>
            </tr>
          )
        })}
      </tbody>
    </TableBox>
  )
}
