// How something stands: a shape, a word and a colour, so that none of them is needed to understand it.
import type { JSX } from 'react'
import { word } from '../text/text'

const TONES: Record<string, string> = {
  PENDING: 'quiet',
  IDLE: 'quiet',
  READY: 'quiet',
  RUNNING: 'busy',
  ACTIVE: 'busy',
  WAITING: 'wait',
  CANCELLING: 'wait',
  COMPLETED: 'good',
  SUCCEEDED: 'good',
  APPROVED: 'good',
  FAILED: 'bad',
  REJECTED: 'bad',
  LOST: 'bad',
  UNHELD: 'wait',
  CANCELLED: 'quiet',
  CANCELED: 'quiet',
  SKIPPED: 'quiet',
}

export function toneOf(status: string): string {
  return TONES[status] ?? 'quiet'
}

export function Status({ status, bare = false }: { status: string; bare?: boolean }): JSX.Element {
  const said = word(`status.${status}`, status)
  return (
    <span className={`status tone-${toneOf(status)}`} data-status={status}>
      <Shape status={status} />
      {bare ? <span className="unseen">{said}</span> : <span>{said}</span>}
    </span>
  )
}

export function Shape({ status }: { status: string }): JSX.Element {
  return (
    <svg className={`shape${status === 'RUNNING' ? ' turning' : ''}`} viewBox="0 0 16 16" aria-hidden="true">
      {drawn(status)}
    </svg>
  )
}

function drawn(status: string): JSX.Element {
  switch (status) {
    case 'COMPLETED':
    case 'SUCCEEDED':
    case 'APPROVED':
      return (
        <path
          className="filled"
          d="M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm-.9 9.9 4.2-4.3-1.1-1.1-3.1 3.2-1.5-1.5-1.1 1.1 2.6 2.6Z"
        />
      )
    case 'FAILED':
      return (
        <path
          className="filled"
          d="M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm2.2 3.7L8 6.9 5.8 4.7 4.7 5.8 6.9 8l-2.2 2.2 1.1 1.1L8 9.1l2.2 2.2 1.1-1.1L9.1 8l2.2-2.2-1.1-1.1Z"
        />
      )
    case 'RUNNING':
    case 'ACTIVE':
      return (
        <>
          <circle className="faint" cx="8" cy="8" r="6" />
          <path className="stroked" d="M8 2a6 6 0 0 1 6 6" />
        </>
      )
    case 'WAITING':
      return <path className="filled" d="M8 .8 15.2 8 8 15.2.8 8 8 .8ZM6 5v6h1.4V5H6Zm2.6 0v6H10V5H8.6Z" />
    case 'REJECTED':
      return <path className="filled" d="M8 1a7 7 0 1 1 0 14A7 7 0 0 1 8 1Zm-4 6v2h8V7H4Z" />
    case 'SKIPPED':
      return (
        <>
          <circle className="stroked dashed" cx="8" cy="8" r="6" />
          <path className="stroked" d="M5 8h5.5M8.3 5.6 10.8 8l-2.5 2.4" />
        </>
      )
    case 'LOST':
    case 'UNHELD':
      return <path className="filled" d="M8 1.2 15.4 14H.6L8 1.2Zm-.8 4.6v4h1.6v-4H7.2Zm0 5.2v1.6h1.6V11H7.2Z" />
    case 'CANCELLING':
      return (
        <>
          <circle className="stroked dashed" cx="8" cy="8" r="6" />
          <path className="filled" d="M5.5 5.5h5v5h-5z" />
        </>
      )
    case 'CANCELLED':
    case 'CANCELED':
      return (
        <>
          <circle className="stroked" cx="8" cy="8" r="6" />
          <path className="stroked" d="m3.8 12.2 8.4-8.4" />
        </>
      )
    default:
      return <circle className="stroked" cx="8" cy="8" r="6" />
  }
}
