// The history of a run, event by event; choosing one shows everything as it stood then.
import { useVirtualizer } from '@tanstack/react-virtual'
import { type JSX, useEffect, useRef } from 'react'
import type { ExecutionEvent } from '../../api/executions'
import { clock } from '../../text/format'
import { t } from '../../text/text'
import type { Moment } from './story'

const ROW = 28

export function Events({
  events,
  cursor,
  goTo,
}: {
  events: ExecutionEvent[]
  cursor: Moment | null
  goTo: (moment: Moment | null) => void
}): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const virtual = useVirtualizer({
    count: events.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW,
    overscan: 10,
  })
  const chosen = cursor?.seq ?? events.at(-1)?.seq ?? 0
  useEffect(() => {
    const index = events.findIndex((event) => event.seq === chosen)
    if (index >= 0) virtual.scrollToIndex(index)
  }, [chosen, events, virtual])
  if (events.length === 0) return <p className="faint-text">{t('events.none')}</p>
  return (
    <div className="events" ref={box} tabIndex={0} role="list" aria-label={t('run.events')}>
      <div className="rows-all" style={{ height: virtual.getTotalSize() }}>
        {virtual.getVirtualItems().map((item) => {
          const event = events[item.index] as ExecutionEvent
          const at = Date.parse(event.occurredAt) / 1000
          return (
            <div
              key={event.seq}
              role="listitem"
              className={`event${event.seq === chosen ? ' chosen' : ''}${cursor && event.seq > cursor.seq ? ' later' : ''}`}
              style={{ transform: `translateY(${item.start}px)`, height: ROW }}
            >
              <button
                type="button"
                className="plain"
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
          )
        })}
      </div>
    </div>
  )
}
