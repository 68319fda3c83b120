// Which page belongs to which address, in the frame that all share.
import { type JSX, lazy, Suspense } from 'react'
import { useCell } from './live/cell'
import { connection } from './live/news'
import { usePlace } from './live/place'
import { Runs } from './pages/runs/runs'
import { Shell } from './shell/shell'
import { SignIn } from './shell/sign-in'
import { t, useLanguage } from './text/text'

const Run = lazy(() => import('./pages/run/run'))
const Compare = lazy(() => import('./pages/run/compare/compare'))
const Approvals = lazy(() => import('./pages/approvals/approvals'))
const OneApproval = lazy(() => import('./pages/approvals/one'))
const OneWorker = lazy(() => import('./pages/workers/worker'))
const Workers = lazy(() => import('./pages/workers/workers'))
const Flows = lazy(() => import('./pages/flows/flows'))
const Flow = lazy(() => import('./pages/flows/flow'))
const Schedules = lazy(() => import('./pages/schedules/schedules'))
const Wheels = lazy(() => import('./pages/wheels/wheels'))
const DeadLetters = lazy(() => import('./pages/dlq/dlq'))
const Strategies = lazy(() => import('./pages/strategies/strategies'))
const System = lazy(() => import('./pages/system/system'))

export function App(): JSX.Element {
  const language = useLanguage()
  const { state, error } = useCell(connection)
  const signedOut = state === 'refused' && (error?.status === 401 || error?.status === 403)
  return (
    <Shell key={language}>
      <Suspense fallback={<p className="loading">{t('loading')}</p>}>
        {signedOut ? <SignIn error={error} /> : <Shown />}
      </Suspense>
    </Shell>
  )
}

function Shown(): JSX.Element {
  const { path } = usePlace()
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
      return <Schedules />
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
