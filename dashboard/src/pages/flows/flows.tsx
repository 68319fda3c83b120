// Which flows and graphs there are, how their runs went, and a form to start one.
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type JSX, useCallback, useRef, useState } from 'react'
import { get, part } from '../../api/client'
import { type KnownFlow, type RunSummary, TERMINAL } from '../../api/types'
import { rewrite, usePlace } from '../../live/place'
import { reread, useOnRuns } from '../../live/reread'
import { Bars } from '../../parts/bars'
import { Empty } from '../../parts/empty'
import { Page } from '../../parts/page'
import { Reading } from '../../parts/reading'
import { Status } from '../../parts/status'
import { TableBox } from '../../parts/table-box'
import { Ago } from '../../parts/time'
import { span } from '../../text/format'
import { t } from '../../text/text'
import { successOf } from './figures'
import { Graphs } from './graphs'
import { Submit } from './submit'
import { SubmitYaml } from './submit-yaml'

const REREAD_MS = 1500
const TREND = 30

export default function Flows(): JSX.Element {
  const flows = useQuery({ queryKey: ['flows'], queryFn: () => get<KnownFlow[]>('/flows') })
  useRereadWhenRunsEnd()
  const { query } = usePlace()
  const [form, setForm] = useState<'other' | 'yaml' | null>(null)
  const wanted = query.get('start')
  // A form stays open though its flow leaves the list, as it does with its last worker.
  const found = flows.data?.find((flow) => flow.flow_name === wanted) ?? null
  const before = useRef(found)
  if (found) before.current = found
  const chosen = found ?? (before.current?.flow_name === wanted ? before.current : null)
  const close = () => {
    setForm(null)
    rewrite({ start: null })
  }
  const actions = (
    <>
      <button type="button" onClick={() => setForm('yaml')}>
        {t('flows.yaml')}
      </button>
      <button type="button" onClick={() => setForm('other')}>
        {t('flows.other')}
      </button>
    </>
  )
  return (
    <Page title={t('flows.title')} actions={actions}>
      <Reading query={flows} />
      {flows.data?.length === 0 && (
        <Empty
          title={t('flows.none.title')}
          text={t('flows.none.text')}
          command="pyoco-server up --flow-resolver my_flows.py:resolve"
        />
      )}
      {flows.data && flows.data.length > 0 && <List flows={flows.data} />}
      <Graphs />
      {(form === 'other' || chosen) && <Submit flow={chosen} onClose={close} />}
      {form === 'yaml' && <SubmitYaml onClose={close} />}
    </Page>
  )
}

function List({ flows }: { flows: KnownFlow[] }): JSX.Element {
  return (
    <TableBox label={t('flows.title')}>
      <thead>
        <tr>
          <th scope="col">{t('flows.flow')}</th>
          <th scope="col">{t('flows.workers')}</th>
          <th scope="col">{t('flows.success')}</th>
          <th scope="col">{t('flows.trend')}</th>
          <th scope="col">{t('flows.last')}</th>
          <th scope="col">
            <span className="unseen">{t('flows.start')}</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {flows.map((flow) => (
          <Row key={flow.flow_name} flow={flow} />
        ))}
      </tbody>
    </TableBox>
  )
}

function Row({ flow }: { flow: KnownFlow }): JSX.Element {
  const success = successOf(flow.ended)
  const last = flow.durations_sec.at(-1)
  const bars = flow.durations_sec.map((seconds, index) => ({
    key: index,
    title: span(seconds),
    parts: [{ tone: 'busy', value: seconds }],
  }))
  return (
    <tr data-flow={flow.flow_name}>
      <td>
        <a href={`#/flows/${part(flow.flow_name)}`}>
          <b>{flow.flow_name}</b>
        </a>
        {flow.description && <small>{flow.description}</small>}
      </td>
      <td>
        {flow.workers ? (
          flow.tags.map((tag) => (
            <span key={tag} className="tag">
              {tag}
            </span>
          ))
        ) : (
          <span className="faint-text">{t('flows.nobody')}</span>
        )}
      </td>
      <td className="nowrap">
        {success ? (
          <>
            {success.percent} %<small>{t('flows.ofLast', { n: success.judged })}</small>
          </>
        ) : (
          '–'
        )}
      </td>
      <td className="trend">
        {last === undefined ? (
          '–'
        ) : (
          <>
            {span(last)}
            <Bars bars={bars} width={120} slots={TREND} label={`${t('flows.trend')}: ${span(last)}`} />
          </>
        )}
      </td>
      <td className="nowrap">
        {flow.last_run_id && flow.last_status ? (
          <a href={`#/runs/${part(flow.last_run_id)}`}>
            <Status status={flow.last_status} />{' '}
            <small>
              <Ago at={flow.last_at} />
            </small>
          </a>
        ) : (
          <span className="faint-text">{t('flows.never')}</span>
        )}
      </td>
      <td className="right nowrap row-actions">
        <a
          className="button small"
          href={`#/schedules?new=1&flow=${part(flow.flow_name)}`}
          aria-label={`${t('flows.schedule')}: ${flow.flow_name}`}
        >
          {t('flows.schedule')}
        </a>{' '}
        <button
          type="button"
          className="small"
          aria-label={`${t('flows.start')}: ${flow.flow_name}`}
          onClick={() => rewrite({ start: flow.flow_name })}
        >
          {t('flows.start')}
        </button>
      </td>
    </tr>
  )
}

/** The numbers change when runs end: told by the stream, read a moment later. */
function useRereadWhenRunsEnd(): void {
  const queries = useQueryClient()
  useOnRuns(
    hasEnded,
    REREAD_MS,
    useCallback(() => void reread(queries, ['flows']), [queries]),
  )
}

const hasEnded = (run: RunSummary) => TERMINAL.has(run.status)
