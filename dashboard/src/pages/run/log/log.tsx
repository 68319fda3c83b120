// What a run printed: from the first line on, and live; searched on the server, linked to by line.
import { type JSX, useEffect, useMemo, useState } from 'react'
import { ask, forgetFailures, part } from '../../../api/client'
import { useCell } from '../../../live/cell'
import { type Keys, useKeys } from '../../../live/keys'
import { rewrite, usePlace } from '../../../live/place'
import { say } from '../../../parts/toast'
import { sentence, Wrong } from '../../../parts/wrong'
import { number, short } from '../../../text/format'
import { t } from '../../../text/text'
import { LogLines } from './log-lines'
import { changeView, chosenLines, LEVELS, type Level, type LogView, useLogView } from './log-view'
import { Rows } from './rows'
import { SearchBox } from './search-box'

export { indexOf } from './rows'

/** How much room the log has: beside the timeline, over the whole width of the page, or the whole window. */
export type Room = 'wide' | 'full' | null

export function useRoom(): Room {
  const room = usePlace().query.get('view')
  return room === 'wide' || room === 'full' ? room : null
}

type LogProps = {
  id: string
  tasks: string[]
  over: boolean
  at: number | null
  task: string | null
  select: (task: string | null) => void
}

export function Log({ id, tasks, over, at, task, select }: LogProps): JSX.Element {
  const [log, setLog] = useState(() => new LogLines(id))
  useEffect(() => log.start(), [log])
  const shown = useCell(log.shown)
  const view = useLogView()
  const { query } = usePlace()
  const [following, setFollowing] = useState(query.get('line') === null)
  const [sought, setSought] = useState('')
  const level = LEVELS.find((one) => one === query.get('level')) ?? null
  const count = shown.lines.length
  // The array is one and the same, and as long as before when its beginning is let go: what is new is `shown`.
  const lines = useMemo(() => chosenLines(shown.lines, task, level), [shown, task, level])
  const wanted = Number(query.get('line') ?? 0)
  // A link to a line, also one that was opened while the log is shown.
  useEffect(() => {
    if (wanted) setFollowing(false)
  }, [wanted])
  const goTo = (seq: number) => {
    setFollowing(false)
    const isHidden = level !== null && shown.lines.some((line) => line.seq === seq) && !lines.some((l) => l.seq === seq)
    rewrite({ line: String(seq), ...(isHidden ? { level: null } : {}) })
  }
  return (
    <div className="log">
      <div className="log-bar">
        <SearchBox id={id} task={task} text={sought} setText={setSought} goTo={goTo} />
        <select aria-label={t('log.task')} value={task ?? ''} onChange={(event) => select(event.target.value || null)}>
          <option value="">{t('log.allTasks')}</option>
          {tasks.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
        <LevelChoice level={level} />
        <button
          type="button"
          className="small"
          aria-pressed={following}
          disabled={shown.over && following}
          onClick={() => {
            setFollowing(!following)
            if (!following) rewrite({ line: null })
          }}
        >
          {following && !shown.over ? t('log.following') : t('log.follow')}
        </button>
        <button type="button" className="small" onClick={() => void download(id)}>
          {t('log.download')}
        </button>
        <span className="faint-text log-count" role="status">
          {t('log.lines', { n: number(shown.dropped + count) })}
        </span>
      </div>
      <ViewBar view={view} />
      {shown.error ? (
        <Wrong
          error={shown.error}
          again={() => {
            forgetFailures()
            setLog(new LogLines(id))
          }}
        />
      ) : null}
      {shown.cut && <p className="faint-text">{t('log.cut')}</p>}
      {shown.dropped > 0 && <p className="faint-text">{t('log.earlier', { n: number(shown.dropped) })}</p>}
      {count === 0 && !shown.loading ? (
        <p className="faint-text log-none">{over ? t('log.none') : t('log.empty')}</p>
      ) : count > 0 && lines.length === 0 ? (
        <p className="faint-text log-none">{t('log.noneChosen')}</p>
      ) : (
        <Rows
          lines={lines}
          count={lines.length}
          following={following}
          setFollowing={setFollowing}
          wanted={wanted}
          at={at}
          view={view}
          sought={sought}
        />
      )}
    </div>
  )
}

function LevelChoice({ level }: { level: Level | null }): JSX.Element {
  return (
    <select
      aria-label={t('log.level')}
      value={level ?? ''}
      onChange={(event) => rewrite({ level: event.target.value || null })}
    >
      <option value="">{t('log.allLevels')}</option>
      {LEVELS.map((one) => (
        <option key={one} value={one}>
          {t('log.leastLevel', { level: one })}
        </option>
      ))}
    </select>
  )
}

/** Columns, wrapping and room. Escape leaves the full screen. */
function ViewBar({ view }: { view: LogView }): JSX.Element {
  const room = useRoom()
  useKeys(useMemo((): Keys => (room === 'full' ? { Escape: () => rewrite({ view: null }) } : {}), [room]))
  const set = (wanted: 'wide' | 'full') => rewrite({ view: room === wanted ? null : wanted })
  return (
    <div className="log-view">
      {(['wrap', 'time', 'task'] as const).map((one) => (
        <label key={one}>
          <input type="checkbox" checked={view[one]} onChange={() => changeView({ [one]: !view[one] })} />
          {t(`log.show.${one}`)}
        </label>
      ))}
      <span className="log-room">
        <button type="button" className="small" aria-pressed={room === 'wide'} onClick={() => set('wide')}>
          {t('log.wide')}
        </button>
        <button type="button" className="small" aria-pressed={room === 'full'} onClick={() => set('full')}>
          {room === 'full' ? t('log.leaveFull') : t('log.full')}
        </button>
      </span>
    </div>
  )
}

async function download(id: string): Promise<void> {
  try {
    const answer = await ask(`/runs/${part(id)}/logs`, { headers: { Accept: 'text/plain' } })
    const link = document.createElement('a')
    link.href = URL.createObjectURL(await answer.blob())
    link.download = `${short(id)}.log`
    link.click()
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000)
  } catch (error) {
    say(sentence(error), true)
  }
}
