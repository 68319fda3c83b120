import { expect, test } from 'vitest'
import { EventParser } from '../src/api/sse'

test('events are whole however the text is cut into pieces', () => {
  const text = 'retry: 1000\n\nevent: runs\nid: a1\ndata: {"x":1}\n\n: keep-alive\n\nevent: runs\ndata: {"x":2}\n\n'
  for (let size = 1; size <= text.length; size += 1) {
    const parser = new EventParser()
    const found = []
    for (let at = 0; at < text.length; at += size) found.push(...parser.take(text.slice(at, at + size)))
    expect(found).toEqual([
      { event: 'runs', id: 'a1', data: '{"x":1}' },
      { event: 'runs', data: '{"x":2}' },
    ])
    expect(parser.retryMs).toBe(1000)
  }
})
