import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { Followed } from '../src/api/stream'
import { begin, finish, type Gateway, pass } from './gateway'

let gateway: Gateway
let stream: typeof import('../src/api/stream')
let session: typeof import('../src/api/session')
let look: (hidden: boolean) => void

beforeEach(async () => {
  gateway = begin()
  const watchers: (() => void)[] = []
  vi.stubGlobal('document', {
    ...document,
    hidden: false,
    addEventListener: (_: string, watcher: () => void) => watchers.push(watcher),
  })
  look = (hidden) => {
    Object.assign(document, { hidden })
    for (const watcher of watchers) watcher()
  }
  stream = await import('../src/api/stream')
  session = await import('../src/api/session')
})
afterEach(finish)

/** Follows a topic, and keeps what it was told. */
function following(topic: string, after?: string, more: Partial<Followed> = {}) {
  const events: unknown[] = []
  const states: string[] = []
  const leave = stream.follow({
    topic,
    after,
    onEvent: (name, data) => events.push([name, data]),
    onState: (state, error) => states.push(error ? `${state} ${error.status}` : state),
    ...more,
  })
  return { events, states, leave }
}

test('several topics are one connection, and each is told what is its own', async () => {
  const runs = following('runs')
  const log = following('log:a', 't7')
  await pass(25)
  expect(gateway.connections.length).toBe(1)
  expect(gateway.last.topics).toEqual(['runs', 'log:a'])
  expect(gateway.last.places).toEqual(['log:a~t7'])
  gateway.last.say('log:a', 'logEntry', { seq: 8 }, 't8')
  gateway.last.say('runs', 'runs', { n: 1 }, 'p1')
  gateway.last.say('nobody', 'x', {}, 'p1')
  await pass(0)
  expect([runs.events, log.events]).toEqual([[['runs', { n: 1 }]], [['logEntry', { seq: 8 }]]])
  expect([runs.states, log.states]).toEqual([
    ['connecting', 'open'],
    ['connecting', 'open'],
  ])
})

test('who comes and goes changes the connection once, and everybody else goes on at their place', async () => {
  const runs = following('runs')
  const log = following('log:a')
  await pass(25)
  const first = gateway.last
  first.say('runs', 'runs', {}, 'p5')
  first.say('log:a', 'logEntry', {}, 'with~a mark')
  await pass(0)
  log.leave()
  log.leave()
  following('events:a', '3')
  following('run:a')
  await pass(25)
  expect(gateway.connections.length).toBe(2)
  expect(first.left).toBe(true)
  expect(gateway.last.topics).toEqual(['runs', 'events:a', 'run:a'])
  expect(gateway.last.places).toEqual(['runs~p5', 'events:a~3'])
  expect(runs.states).toEqual(['connecting', 'open'])
})

test('a place may have the mark in it', async () => {
  following('log:a')
  await pass(25)
  gateway.last.say('log:a', 'logEntry', {}, 'with~a mark')
  await pass(0)
  stream.reconnect()
  await pass(0)
  expect(gateway.last.places).toEqual(['log:a~with~a mark'])
})

test('an event without a place leaves the place where it was', async () => {
  following('log:a')
  await pass(25)
  gateway.last.say('log:a', 'logEntry', {}, 't1')
  gateway.last.say('log:a', 'status', {})
  await pass(0)
  stream.reconnect()
  await pass(0)
  expect(gateway.last.places).toEqual(['log:a~t1'])
})

test('who has left is told nothing more', async () => {
  const one = following('runs')
  await pass(25)
  one.leave()
  gateway.last.say('runs', 'runs', {}, 'p1')
  await pass(100)
  expect(one.events).toEqual([])
  expect(gateway.connections.length).toBe(1)
  expect(gateway.last.left).toBe(true)
})

test('who names a topic anew begins where they want, not where the connection is that others had', async () => {
  const before = following('log:a')
  await pass(25)
  const old = gateway.last
  before.leave()
  const anew = following('log:a', 't2')
  old.say('log:a', 'logEntry', { seq: 9 }, 't9')
  await pass(25)
  expect([before.events, anew.events]).toEqual([[], []])
  expect(gateway.last.places).toEqual(['log:a~t2'])
  gateway.last.say('log:a', 'logEntry', { seq: 3 }, 't3')
  await pass(0)
  expect(anew.events).toEqual([['logEntry', { seq: 3 }]])
})

test('the ordinary end of a connection that lasted is no loss', async () => {
  const runs = following('runs')
  await pass(25)
  gateway.last.say('runs', 'runs', {}, 'p1')
  await pass(5000)
  gateway.last.end()
  await pass(0)
  await pass(249)
  expect(gateway.connections.length).toBe(1)
  await pass(1)
  expect(gateway.connections.length).toBe(2)
  expect(gateway.last.places).toEqual(['runs~p1'])
  expect(runs.states).toEqual(['connecting', 'open'])
})

test('one that ends at once is a failure: it is repeated after pauses that double, until one lasts', async () => {
  const runs = following('runs')
  await pass(25)
  for (const pause of [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]) {
    const before = gateway.connections.length
    gateway.last.end()
    await pass(0)
    await pass(pause - 1)
    expect(gateway.connections.length).toBe(before)
    await pass(1)
    expect(gateway.connections.length).toBe(before + 1)
  }
  expect(runs.states.slice(0, 5)).toEqual(['connecting', 'open', 'lost 0', 'open', 'lost 0'])
  await pass(5000)
  gateway.last.breakOff()
  await pass(0)
  expect(runs.states.at(-1)).toBe('lost 0')
  await pass(1000)
  expect(runs.states.at(-1)).toBe('open')
})

test('a gateway that is away, or asks for time, is asked again, and everybody hears of it', async () => {
  gateway.refuses = 'away'
  const runs = following('runs', 'p1')
  const log = following('log:a')
  await pass(25)
  expect([runs.states, log.states]).toEqual([
    ['connecting', 'lost 0'],
    ['connecting', 'lost 0'],
  ])
  gateway.refuses = { status: 503, headers: { 'Retry-After': '7' } }
  await pass(1000)
  expect(runs.states.at(-1)).toBe('lost 503')
  gateway.refuses = null
  await pass(6999)
  expect(gateway.connections.length).toBe(2)
  await pass(1)
  expect(gateway.connections.length).toBe(3)
  expect(gateway.last.places).toEqual(['runs~p1'])
  expect(runs.states.at(-1)).toBe('open')
})

test('the reader, and the network that is back, do not wait for the pause', async () => {
  gateway.refuses = 'away'
  following('runs')
  await pass(25)
  await pass(1000)
  gateway.refuses = null
  stream.reconnect()
  await pass(0)
  expect(gateway.connections.length).toBe(3)
  expect(gateway.last.left).toBe(false)
  await pass(60_000)
  expect(gateway.connections.length).toBe(3)
})

test('a topic that is over is told so once, and not asked for any more', async () => {
  const runs = following('runs')
  const run = following('run:a')
  await pass(25)
  gateway.last.say('run:a', 'over', null)
  gateway.last.say('run:a', 'snapshot', {})
  await pass(0)
  expect([run.states.at(-1), run.events]).toEqual(['over', []])
  stream.reconnect()
  await pass(0)
  expect(gateway.last.topics).toEqual(['runs'])
  run.leave()
  await pass(25)
  expect(gateway.connections.length).toBe(2)
  expect(runs.states).toEqual(['connecting', 'open'])
})

test('a topic that is refused says why, and the others go on', async () => {
  const runs = following('runs')
  const run = following('run:a')
  await pass(25)
  gateway.last.say('run:a', 'refused', { status: 404, message: 'no such run' })
  gateway.last.say('runs', 'runs', {}, 'p1')
  await pass(100)
  expect([run.states.at(-1), runs.states.at(-1), runs.events.length]).toEqual(['refused 404', 'open', 1])
  expect(gateway.connections.length).toBe(1)
})

test('a place that is of no use any more is given up once, and its follower knows', async () => {
  const onAnew = vi.fn()
  const log = following('log:a', 'of another log', { onAnew })
  following('events:a', '3', { onAnew: () => expect.unreachable() })
  await pass(25)
  gateway.last.say('log:a', 'refused', { status: 422, message: 'not a token of this log' })
  await pass(0)
  expect(onAnew).not.toHaveBeenCalled()
  await pass(25)
  expect(gateway.connections.length).toBe(2)
  expect(gateway.last.places).toEqual(['events:a~3'])
  expect(onAnew).toHaveBeenCalledTimes(1)
  expect(log.states).toEqual(['connecting', 'open'])
  gateway.last.say('log:a', 'refused', { status: 422, message: 'not a run' })
  await pass(100)
  expect(log.states.at(-1)).toBe('refused 422')
  expect(gateway.connections.length).toBe(2)
})

test('who is not let in is not asked for again; who signs in begins from the beginning', async () => {
  const onAnew = vi.fn()
  const runs = following('runs', 'p1', { onAnew })
  following('run:a', undefined, { onAnew: () => expect.unreachable() })
  await pass(25)
  gateway.refuses = { status: 401 }
  stream.reconnect()
  await pass(120_000)
  expect(runs.states).toEqual(['connecting', 'open', 'refused 401'])
  expect(gateway.connections.length).toBe(2)
  gateway.refuses = null
  const kept = new Map<string, string>()
  vi.stubGlobal('sessionStorage', { getItem: (at: string) => kept.get(at), setItem: kept.set.bind(kept) })
  session.signIn({ kind: 'key', value: 'secret' })
  await pass(0)
  expect(gateway.connections.length).toBe(3)
  expect(gateway.last.places).toEqual([])
  expect(gateway.last.headers['X-API-Key']).toBe('secret')
  expect(runs.states.slice(3)).toEqual(['connecting', 'open'])
  stream.reconnect()
  await pass(0)
  expect(onAnew).toHaveBeenCalledTimes(1)
})

test('a tab in the background gives its connection back after a while, and goes on without a gap', async () => {
  const runs = following('runs')
  await pass(25)
  gateway.last.say('runs', 'runs', {}, 'p1')
  await pass(0)
  look(true)
  await pass(19_999)
  look(false)
  await pass(60_000)
  expect(gateway.last.left).toBe(false)
  look(true)
  await pass(20_000)
  expect(gateway.last.left).toBe(true)
  following('lists')
  stream.reconnect()
  await pass(600_000)
  expect(gateway.connections.length).toBe(1)
  look(false)
  await pass(0)
  expect(gateway.connections.length).toBe(2)
  expect(gateway.last.places).toEqual(['runs~p1'])
  expect(runs.states).toEqual(['connecting', 'open'])
})

test('text is whole however the bytes are cut, also inside of a letter', async () => {
  const runs = following('runs')
  await pass(25)
  const bytes = new TextEncoder().encode('event: runs\ndata: {"event":"x","data":"終わり"}\n\n')
  for (const byte of bytes) gateway.last.bytes(Uint8Array.of(byte))
  await pass(0)
  expect(runs.events).toEqual([['x', '終わり']])
})

test('what cannot be read, or cannot be taken, ends the connection and not the page', async () => {
  const onEvent = vi.fn().mockImplementationOnce(() => {
    throw new Error('not taken')
  })
  const runs = following('runs', undefined, { onEvent })
  await pass(25)
  gateway.last.say('runs', 'runs', 1, 'p1')
  await pass(0)
  expect(runs.states.at(-1)).toBe('lost 0')
  await pass(1000)
  expect(gateway.connections[0]?.left).toBe(true)
  expect(gateway.last.places).toEqual(['runs~p1'])
  gateway.last.bytes(new TextEncoder().encode('event: runs\ndata: {\n\n'))
  await pass(2000)
  gateway.last.say('runs', 'runs', 2, 'p2')
  await pass(0)
  expect(onEvent.mock.calls.at(-1)).toEqual(['runs', 2])
})

test('a connection over which nothing comes is given up, and a comment is something', async () => {
  const runs = following('runs', 'p1')
  await pass(25)
  const first = gateway.last
  await pass(60_000)
  expect(first.left).toBe(false)
  first.fallSilent()
  await pass(12_000)
  expect(first.left).toBe(true)
  expect(runs.states).toEqual(['connecting', 'open', 'lost 0'])
  await pass(1_000)
  expect(gateway.connections.length).toBe(2)
  expect(gateway.last.places).toEqual(['runs~p1'])
  expect(runs.states.at(-1)).toBe('open')
})

test('so is one that is not answered', async () => {
  gateway.refuses = 'silent'
  const runs = following('runs')
  await pass(12_025)
  expect(runs.states).toEqual(['connecting', 'lost 0'])
})
