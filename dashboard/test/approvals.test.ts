import { expect, test } from 'vitest'
import type { Approval } from '../src/api/executions'
import { matches, orderOf, questionOf, sorted } from '../src/pages/approvals/sorting'

function approval(changes: Partial<Approval>): Approval {
  return {
    run_id: '4f1c0000-aaaa',
    task: 'release',
    wait_key: 'release',
    prompt: { question: 'Deploy it?', file: 'shop-2.0.tar.gz' },
    since: 10,
    deadline_at: null,
    flow_name: 'shipping',
    tag: 'default',
    ...changes,
  }
}

test('the question is what the prompt asks in words', () => {
  expect(questionOf({ question: 'Deploy it?' })).toBe('Deploy it?')
  expect(questionOf({ question: ' ' })).toBeNull()
  expect(questionOf({ question: { a: 1 } })).toBeNull()
  expect(questionOf(null)).toBeNull()
})

test('a search finds words of the question, its facts, the flow, the task and the run', () => {
  for (const search of ['', 'deploy', 'SHOP-2.0', 'shipping release', '4f1c']) {
    expect(matches(approval({}), search), search).toBe(true)
  }
  expect(matches(approval({}), 'deploy billing')).toBe(false)
  expect(matches(approval({ prompt: null }), 'deploy')).toBe(false)
})

test('approvals are in the order that was chosen, those without a deadline last', () => {
  const items = [
    approval({ task: 'b', since: 20, deadline_at: 90 }),
    approval({ task: 'a', since: 10 }),
    approval({ task: 'c', since: 30, deadline_at: 50 }),
  ]
  const tasks = (word: string | null) => sorted(items, orderOf(word)).map((one) => one.task)
  expect(tasks(null)).toEqual(['a', 'b', 'c'])
  expect(tasks('newest')).toEqual(['c', 'b', 'a'])
  expect(tasks('deadline')).toEqual(['c', 'b', 'a'])
  expect(tasks('unheard of')).toEqual(['a', 'b', 'c'])
})
