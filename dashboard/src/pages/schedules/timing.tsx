// When a schedule is due: its fields, what they mean in words, and the next times, asked of the server while they are typed.
import { useQuery } from '@tanstack/react-query'
import { type JSX, type ReactNode, useEffect, useId, useState } from 'react'
import { ApiError, get } from '../../api/client'
import { Ago } from '../../parts/time'
import { Wrong } from '../../parts/wrong'
import { cronInWords } from '../../text/cron'
import { exactIn } from '../../text/format'
import { t } from '../../text/text'
import { FIELDS, isWhole, KINDS, type Kind, type When, whenGiven, zones } from './when'

const TYPING_MS = 300
const COUNT = 5

export function Timing({
  when,
  change,
  refusal,
}: {
  when: When
  change: (some: Partial<When>) => void
  /** Of the schedule itself, with these times. */
  refusal: unknown
}): JSX.Element {
  const preview = usePreview(when)
  const problem = (name: string) => problemOf(preview.error, name) ?? problemOf(refusal, name)
  const isBeside = FIELDS.some((name) => problem(name) !== undefined)
  return (
    <fieldset className="timing">
      <legend>{t('schedules.when')}</legend>
      <div className="choices in-row">
        {KINDS.map((kind: Kind) => (
          <label key={kind}>
            <input type="radio" name="kind" checked={when.kind === kind} onChange={() => change({ kind })} />
            {t(`schedules.kind.${kind}`)}
          </label>
        ))}
      </div>
      <div className="fields">
        {when.kind === 'cron' && (
          <>
            <Labelled label={t('schedules.cron')} problem={problem('cron')}>
              {(about) => (
                <input
                  className="mono"
                  value={when.cron}
                  required
                  {...about}
                  onChange={(event) => change({ cron: event.target.value })}
                />
              )}
            </Labelled>
            <Labelled label={t('schedules.zone')} problem={problem('timezone')}>
              {(about) => (
                <>
                  <input
                    value={when.zone}
                    list="time-zones"
                    {...about}
                    onChange={(event) => change({ zone: event.target.value })}
                  />
                  <datalist id="time-zones">
                    {zones().map((zone) => (
                      <option key={zone} value={zone} />
                    ))}
                  </datalist>
                </>
              )}
            </Labelled>
          </>
        )}
        {when.kind === 'interval' && (
          <Labelled label={t('schedules.seconds')} problem={problem('interval_seconds')}>
            {(about) => (
              <input
                type="number"
                min="0.1"
                step="any"
                value={when.seconds}
                required
                {...about}
                onChange={(event) => change({ seconds: event.target.value })}
              />
            )}
          </Labelled>
        )}
        {when.kind === 'once' && (
          <Labelled label={t('schedules.at')} problem={problem('run_at')}>
            {(about) => (
              <input
                type="datetime-local"
                step="1"
                value={when.at}
                required
                {...about}
                onChange={(event) => change({ at: event.target.value })}
              />
            )}
          </Labelled>
        )}
      </div>
      {preview.error !== null && !isBeside && <Wrong error={preview.error} />}
      <div className="preview" role="status">
        {when.kind === 'cron' && problem('cron') === undefined && <p className="words">{cronInWords(when.cron)}</p>}
        {preview.data && (
          <Upcoming instants={preview.data.upcoming} zone={when.kind === 'cron' ? when.zone : undefined} />
        )}
      </div>
    </fieldset>
  )
}

/** `zone`: that of the schedule; else the reader's. */
export function Upcoming({ instants, zone }: { instants: number[]; zone?: string | null }): JSX.Element {
  if (instants.length === 0) return <p>{t('schedules.never')}</p>
  return (
    <>
      <span>{t('schedules.preview')}</span>
      <ol>
        {instants.map((at) => (
          <li key={at}>
            {exactIn(at, zone)}{' '}
            <span className="faint-text">
              (<Ago at={at} />)
            </span>
          </li>
        ))}
      </ol>
    </>
  )
}

type About = { id: string; 'aria-invalid': boolean; 'aria-describedby': string }

function Labelled(props: { label: string; problem?: string; children: (about: About) => ReactNode }): JSX.Element {
  const id = useId()
  return (
    <div className="field">
      <label htmlFor={id}>{props.label}</label>
      {props.children({ id, 'aria-invalid': props.problem !== undefined, 'aria-describedby': `${id}-problem` })}
      <div id={`${id}-problem`}>
        {props.problem && (
          <p className="problem" role="alert">
            {props.problem}
          </p>
        )}
      </div>
    </div>
  )
}

function problemOf(error: unknown, name: string): string | undefined {
  return error instanceof ApiError ? error.problems.find((one) => one.loc?.includes(name))?.msg : undefined
}

function usePreview(when: When) {
  const [settled, setSettled] = useState(when)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(when), TYPING_MS)
    return () => clearTimeout(timer)
  }, [when])
  const given = isWhole(settled) ? whenGiven(settled) : null
  return useQuery({
    queryKey: ['schedule preview', given],
    queryFn: ({ signal }) => get<{ upcoming: number[] }>('/schedules/preview', { ...given, upcoming: COUNT }, signal),
    enabled: given !== null,
  })
}
