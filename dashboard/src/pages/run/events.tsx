// The history of a run, event by event. An event shows its payload, and the state of everything at its moment.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type JSX, useEffect, useRef, useState } from 'react'
import type { ExecutionEvent } from '../../api/executions'
import { CopyButton } from '../../parts/copy'
import { Json } from '../../parts/json'
import { clock } from '../../text/format'
import { t } from '../../text/text'
import type { Moment } from './story'

const ROW = 28

type Props = {
  events: ExecutionEvent[]
  cursor: Moment | null
  goTo: (moment: Moment | null) => void
}

export function Events({ events, cursor, goTo }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const [opened, setOpened] = useState<ReadonlySet<number>>(new Set())
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => box.current,
    getItemKey: (index) => (events[index] as ExecutionEvent).seq,
    estimateSize: () => ROW,
    overscan: 10,
  })
  const chosen = cursor?.seq ?? events.at(-1)?.seq ?? 0
  useEffect(() => {
    const index = events.findIndex((event) => event.seq === chosen)
    if (index >= 0) virtual.scrollToIndex(index)
  }, [chosen, events, virtual])
  const toggle = (seq: number) => {
    const next = new Set(opened)
    if (!next.delete(seq)) next.add(seq)
    setOpened(next)
  }
  if (events.length === 0) return <p className="faint-text">{t('events.none')}</p>
  return (
    <div className="events" ref={box} tabIndex={0} role="list" aria-label={t('run.events')}>
      <div className="rows-all" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const event = events[item.index] as ExecutionEvent
          const at = Date.parse(event.occurredAt) / 1000
          const isOpen = opened.has(event.seq)
          return (
            <div
              key={event.seq}
              ref={virtual.measureElement}
              data-index={item.index}
              role="listitem"
              className={`event${event.seq === chosen ? ' chosen' : ''}${cursor && event.seq > cursor.seq ? ' later' : ''}`}
              style={{ transform: `translateY(${item.start}px)` }}
            >
              <div className="event-row">
                <button
                  type="button"
                  className="plain event-open"
                  aria-expanded={isOpen}
                  aria-label={t('events.open', { seq: event.seq })}
                  onClick={() => toggle(event.seq)}
                >
                  {isOpen ? '▾' : '▸'}
                </button>
                <button
                  type="button"
                  className="plain event-go"
                  title={t('events.goto', { seq: event.seq })}
                  aria-pressed={event.seq === chosen}
                  onClick={() => goTo({ at, seq: event.seq })}
                >
                  <span className="mono event-seq">{event.seq}</span>
                  <span className="mono">{clock(at, true)}</span>
                  <span className="event-type">{event.type}</span>
                  <span className="event-node">{event.payload.nodeId ?? ''}</span>
                  <span className="faint-text">{event.actor.id ?? event.actor.kind}</span>
                </button>
              </div>
              {isOpen && <Payload event={event} />}
            </div>
          )
        })}
      </div>
    </div>
  )
}

function Payload({ event }: { event: ExecutionEvent }): JSX.Element {
  const { nodeId: _, ...rest } = event.payload
  return (
    <div className="event-payload">
      <p className="faint-text">
        {event.occurredAt} · {[event.actor.kind, event.actor.id].filter(Boolean).join(' ')}{' '}
        <CopyButton text={JSON.stringify(event, null, 2)} label={t('events.copy', { seq: event.seq })} />
      </p>
      <Json value={rest} label={t('events.payload', { seq: event.seq })} />
    </div>
  )
}
