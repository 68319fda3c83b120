// The frame: pages at the side, who and where at the top, and whether what is shown is live.
import { type UseQueryResult, useQuery } from '@tanstack/react-query'
import { type JSX, type ReactNode, useEffect, useMemo, useRef, useState } from 'react'
import { get } from '../api/client'
import { credential, gatewayVersion, signOut } from '../api/session'
import { reconnect } from '../api/stream'
import type { Caller } from '../api/types'
import { useCell } from '../live/cell'
import { useKeys } from '../live/keys'
import { connection, counts, standing } from '../live/news'
import { go, usePlace } from '../live/place'
import { useReread } from '../live/reread'
import { setTheme, type Theme, theme } from '../live/theme'
import { useWaiting } from '../pages/approvals/waiting'
import { useOpenCount } from '../pages/dlq/letters'
import { Toast } from '../parts/toast'
import { number } from '../text/format'
import { type Key, type Language, setLanguage, t, useLanguage } from '../text/text'
import { Icon } from './icon'
import { KeyHelp } from './key-help'

/** Shown only where it has something to show. */
const OPTIONAL = 'strategies'

export const PAGES = [
  'runs',
  'approvals',
  'workers',
  'flows',
  'schedules',
  'wheels',
  'dlq',
  'strategies',
  'system',
] as const
/** The second key after `g`. */
export const GO_KEYS: Record<(typeof PAGES)[number], string> = {
  runs: 'r',
  approvals: 'a',
  workers: 'w',
  flows: 'f',
  schedules: 's',
  wheels: 'h',
  dlq: 'd',
  strategies: 't',
  system: 'y',
}

export function Shell({ children }: { children: ReactNode }): JSX.Element {
  const [help, setHelp] = useState(false)
  useKeys(
    useMemo(
      () => ({
        '?': () => setHelp(true),
        ...Object.fromEntries(PAGES.map((page) => [`g ${GO_KEYS[page]}`, () => go(`/${page}`)])),
      }),
      [],
    ),
  )
  return (
    <div className="shell">
      {/* biome-ignore lint/a11y/useValidAnchor: it leads somewhere; the address behind the # names pages, and stays */}
      <a className="skip" href="#content" onClick={(event) => skip(event)}>
        {t('app.skip')}
      </a>
      <header className="top">
        <a className="brand" href="#/runs">
          <Mark /> {t('app.name')}
        </a>
        <Live />
        <div className="top-right">
          <Who />
          <Choices />
        </div>
      </header>
      <Nav />
      <Foot onKeys={() => setHelp(true)} />
      <main id="content" tabIndex={-1}>
        {children}
      </main>
      <Toast />
      {help && <KeyHelp onClose={() => setHelp(false)} />}
    </div>
  )
}

function skip(event: { preventDefault: () => void }): void {
  event.preventDefault()
  document.getElementById('content')?.focus()
}

function Nav(): JSX.Element {
  const { path } = usePlace()
  const sums = useCell(counts)
  const waiting = useWaiting()
  const letters = useOpenCount()
  const { data: caller } = useCaller()
  useReread('strategies', ['caller'])
  const here = path.split('/')[1]
  const bar = useRef<HTMLElement>(null)
  const shown = PAGES.filter((page) => page !== OPTIONAL || page === here || caller?.has_strategies)
  // On a phone the bar scrolls: the page that is shown must be seen in it.
  // biome-ignore lint/correctness/useExhaustiveDependencies: its place changes with these
  useEffect(() => {
    bar.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [here, shown.length, waiting.n, letters.n, sums === null])
  const badges: Partial<Record<string, string>> = {
    runs: sums ? counted(sums.RUNNING + sums.PENDING + sums.CANCELLING) : undefined,
    approvals: counted(waiting.n, waiting.more),
    dlq: counted(letters.n, letters.more),
  }
  return (
    <nav className="side" aria-label={t('nav.label')} ref={bar}>
      {shown.map((page) => (
        <a key={page} href={`#/${page}`} aria-current={here === page ? 'page' : undefined}>
          <Icon name={page} />
          <span className="nav-word">{t(`nav.${page}` as Key)}</span>
          {badges[page] ? <span className={`badge${page === 'runs' ? '' : ' strong'}`}>{badges[page]}</span> : null}
        </a>
      ))}
    </nav>
  )
}

function counted(n: number, more = false): string | undefined {
  return n === 0 ? undefined : `${number(n)}${more ? '+' : ''}`
}

/** Which version this is, and where help is: below the pages, or on a phone below the page. */
function Foot({ onKeys }: { onKeys: () => void }): JSX.Element {
  return (
    <footer className="foot">
      <a href="./docs">{t('foot.reference')}</a>
      <button type="button" className="link" onClick={onKeys} aria-label={t('keys.title')}>
        {t('foot.keys')}
      </button>
      {gatewayVersion && <span>{t('foot.version', { version: gatewayVersion })}</span>}
    </footer>
  )
}

function Live(): JSX.Element {
  const { state, error } = useCell(connection)
  const { ready, reasons } = useCell(standing)
  if (state === 'open' && ready)
    return (
      <span className="live good" role="status">
        {t('live.open')}
      </span>
    )
  if (state === 'open')
    return (
      <span className="live bad" role="status">
        {t('live.away', { why: reasons.join('; ') })}
      </span>
    )
  if (state === 'refused')
    return (
      <span className="live bad" role="status">
        {t('live.refused')}
      </span>
    )
  if (state === 'lost') {
    const why = error && error.status > 0 ? t('live.away', { why: error.message }) : t('live.lost')
    return (
      <>
        <span className="live bad" role="status">
          {why}
        </span>
        <button type="button" className="small" onClick={reconnect}>
          {t('do.again')}
        </button>
      </>
    )
  }
  return (
    <span className="live" role="status">
      {t('live.connecting')}
    </span>
  )
}

function useCaller(): UseQueryResult<Caller> {
  const { state } = useCell(connection)
  return useQuery({
    queryKey: ['caller', credential()?.value],
    queryFn: () => get<Caller>('/caller'),
    enabled: state === 'open',
  })
}

function Who(): JSX.Element | null {
  const { state } = useCell(connection)
  const caller = useCaller()
  const signedIn = credential() !== null && state !== 'refused'
  if (!signedIn && !caller.data?.tenant_id) return null
  return (
    <span className="who">
      {caller.data?.tenant_id && <span>{t('who.tenant', { tenant: caller.data.tenant_id })}</span>}
      {signedIn && (
        <button type="button" className="small" onClick={signOut}>
          {t('who.out')}
        </button>
      )}
    </span>
  )
}

function Choices(): JSX.Element {
  const chosen = useCell(theme)
  const language = useLanguage()
  return (
    <>
      <select
        aria-label={t('language.label')}
        value={language}
        onChange={(event) => setLanguage(event.target.value as Language)}
      >
        <option value="en">English</option>
        <option value="ja">日本語</option>
      </select>
      <select aria-label={t('theme.label')} value={chosen} onChange={(event) => setTheme(event.target.value as Theme)}>
        <option value="auto">{t('theme.auto')}</option>
        <option value="light">{t('theme.light')}</option>
        <option value="dark">{t('theme.dark')}</option>
      </select>
    </>
  )
}

function Mark(): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" width="20" height="20" aria-hidden="true" className="mark">
      <rect width="32" height="32" rx="7" />
      <path d="M8 16h5l4-6h7M13 16l4 6h7" />
    </svg>
  )
}
