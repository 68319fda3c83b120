// Which page belongs to which address, in the frame that all share.
import { type JSX, lazy, Suspense, useEffect } from 'react'
import { useCell } from './live/cell'
import { connection } from './live/news'
import { usePlace } from './live/place'
import { Runs } from './pages/runs/runs'
import { Broken, NotLoaded } from './shell/broken'
import { Shell } from './shell/shell'
import { SignIn } from './shell/sign-in'
import { t, useLanguage } from './text/text'

const ofRuns = () => import('./pages/of-runs').catch(notLoaded)
const others = () => import('./pages/others').catch(notLoaded)

function notLoaded(cause: unknown): never {
  throw new NotLoaded('The script of a page could not be loaded', { cause })
}

const LATER_MS = 1500

const Run = lazy(() => ofRuns().then((pages) => ({ default: pages.Run })))
const Compare = lazy(() => ofRuns().then((pages) => ({ default: pages.Compare })))
const Flow = lazy(() => ofRuns().then((pages) => ({ default: pages.Flow })))
const Approvals = lazy(() => others().then((pages) => ({ default: pages.Approvals })))
const OneApproval = lazy(() => others().then((pages) => ({ default: pages.OneApproval })))
const OneWorker = lazy(() => others().then((pages) => ({ default: pages.OneWorker })))
const Workers = lazy(() => others().then((pages) => ({ default: pages.Workers })))
const Flows = lazy(() => others().then((pages) => ({ default: pages.Flows })))
const OneSchedule = lazy(() => others().then((pages) => ({ default: pages.OneSchedule })))
const Schedules = lazy(() => others().then((pages) => ({ default: pages.Schedules })))
const Wheels = lazy(() => others().then((pages) => ({ default: pages.Wheels })))
const DeadLetters = lazy(() => others().then((pages) => ({ default: pages.DeadLetters })))
const Strategies = lazy(() => others().then((pages) => ({ default: pages.Strategies })))
const System = lazy(() => others().then((pages) => ({ default: pages.System })))

/** The other pages too, once the first one stands: they open at once, also when the gateway is away by then. */
function loadLater(): () => void {
  const timer = setTimeout(() => void Promise.allSettled([ofRuns(), others()]), LATER_MS)
  return () => clearTimeout(timer)
}

export function App(): JSX.Element {
  const language = useLanguage()
  const { state, error } = useCell(connection)
  const { path } = usePlace()
  useEffect(loadLater, [])
  const signedOut = state === 'refused' && (error?.status === 401 || error?.status === 403)
  return (
    <Shell key={language}>
      <Broken key={path}>
        <Suspense fallback={<p className="loading">{t('loading')}</p>}>
          {signedOut ? <SignIn error={error} /> : <Shown path={path} />}
        </Suspense>
      </Broken>
    </Shell>
  )
}

function Shown({ path }: { path: string }): JSX.Element {
  const [first, second, third, fourth] = path.split('/').filter(Boolean)
  switch (first) {
    case undefined:
    case 'runs':
      if (!second) return <Runs />
      return third === 'compare' ? (
        <Compare key={second} id={decodeURIComponent(second)} other={fourth ? decodeURIComponent(fourth) : null} />
      ) : (
        <Run key={second} id={decodeURIComponent(second)} />
      )
    case 'approvals':
      return second && third ? (
        <OneApproval run={decodeURIComponent(second)} task={decodeURIComponent(third)} />
      ) : (
        <Approvals />
      )
    case 'workers':
      return second ? <OneWorker key={second} id={decodeURIComponent(second)} /> : <Workers />
    case 'flows':
      return second ? <Flow key={second} name={decodeURIComponent(second)} /> : <Flows />
    case 'schedules':
      return second ? <OneSchedule key={second} id={decodeURIComponent(second)} /> : <Schedules />
    case 'wheels':
      return <Wheels />
    case 'dlq':
      return <DeadLetters />
    case 'strategies':
      return <Strategies />
    case 'system':
      return <System />
    default:
      return (
        <div className="empty">
          <p>{t('wrong.none')}</p>
          <a className="button" href="#/runs">
            {t('nav.runs')}
          </a>
        </div>
      )
  }
}
