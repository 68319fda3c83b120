// What stands in the place of the list while there are no runs: a demo to start here, and commands to copy.
import { useQuery } from '@tanstack/react-query'
import { type JSX, useEffect } from 'react'
import { get, part, send } from '../../api/client'
import type { KnownFlow } from '../../api/types'
import { useDoing, useKeyOf } from '../../live/doing'
import { go } from '../../live/place'
import { Command, clientCommand } from '../../parts/copy'
import { Reading } from '../../parts/reading'
import { Wrong } from '../../parts/wrong'
import { number } from '../../text/format'
import { type Key, t } from '../../text/text'
import { tagOf } from '../flows/tag-field'
import { useWorkers } from '../workers/use-workers'

const DEMO = 'hello'
const OWN = 'pyoco-server up --flow-resolver my_flows.py:resolve'
const FLOWS_MAX = 8

export function Start(): JSX.Element {
  const workers = useWorkers()
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  const alive = workers?.filter((one) => one.state === 'RUNNING' || one.state === 'IDLE').length
  const { refetch } = flows
  // A worker that comes or goes changes which flows there are.
  useEffect(() => {
    if (alive !== undefined) void refetch()
  }, [alive, refetch])
  const served = (flows.data ?? []).filter((one) => one.workers > 0)
  const demo = served.find((one) => one.flow_name === DEMO) ?? served.find(needsNothing)
  return (
    <div className="start-page">
      <section className="card" aria-label={t('start.title')}>
        <h2>{t('start.title')}</h2>
        <p>{t('start.intro')}</p>
        <p role="status" className={alive === 0 ? 'problem' : 'faint-text'} data-workers={alive}>
          {alive === undefined
            ? t('start.workers.wait')
            : alive === 0
              ? t('start.workers.none')
              : t('start.workers', { n: number(alive) })}
        </p>
        <Reading query={flows} quiet />
        {demo && <Demo flow={demo} tag={tagOf(demo, workers)} />}
        {served.length > 0 && (
          <>
            <p className="faint-text">{t('start.flows')}</p>
            <ul className="start-flows">
              {served.slice(0, FLOWS_MAX).map((one) => (
                <li key={one.flow_name}>
                  <a className="button small" href={`#/flows/${part(one.flow_name)}`}>
                    {one.flow_name}
                  </a>
                </li>
              ))}
            </ul>
          </>
        )}
      </section>
      <section className="card" aria-label={t('start.commands')}>
        <h2>{t('start.commands')}</h2>
        {commandsFor(demo, workers).map(([key, command]) => (
          <div key={key}>
            <p>{t(key)}</p>
            <Command text={command} />
          </div>
        ))}
      </section>
    </div>
  )
}

function needsNothing(flow: KnownFlow): boolean {
  return flow.params?.every((one) => !one.required) ?? false
}

function commandsFor(demo: KnownFlow | undefined, workers: Parameters<typeof tagOf>[1]): [Key, string][] {
  const flow = demo?.flow_name ?? DEMO
  const tag = demo ? tagOf(demo, workers) : 'demo'
  return [
    ['start.command.run', clientCommand(`submit ${flow} --tag ${tag} --wait`)],
    ['start.command.list', clientCommand('list --limit 5')],
    ['start.command.own', OWN],
  ]
}

function Demo({ flow, tag }: { flow: KnownFlow; tag: string }): JSX.Element {
  const doing = useDoing()
  const keyOf = useKeyOf()
  const start = () => {
    const wanted = { flow_name: flow.flow_name, params: {}, tag }
    doing.run(async () => {
      const made = await send<{ run_id: string }>('POST', '/runs', wanted, keyOf(wanted))
      go(`/runs/${part(made.run_id)}`)
    })
  }
  return (
    <>
      <p>
        <button type="button" className="main" disabled={doing.busy} onClick={start}>
          {flow.flow_name === DEMO ? t('start.demo') : t('start.demoFlow', { flow: flow.flow_name })}
        </button>
      </p>
      <p className="faint-text">{t('start.demoText')}</p>
      {doing.error !== null && <Wrong error={doing.error} />}
    </>
  )
}
