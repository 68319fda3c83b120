// Which open approvals are shown, and in which order. Pure, so that tests need no page.
import type { Approval } from '../../api/executions'
import { factsIn } from './answer-schema'

export const ORDERS = ['oldest', 'newest', 'deadline'] as const
export type Order = (typeof ORDERS)[number]

export function orderOf(word: string | null): Order {
  return ORDERS.find((one) => one === word) ?? 'oldest'
}

/** What is asked, in words; null where the flow asks nothing. */
export function questionOf(prompt: Record<string, unknown> | null): string | null {
  const question = prompt?.question
  return typeof question === 'string' && question.trim() ? question : null
}

type Searched = Pick<Approval, 'run_id' | 'task' | 'flow_name' | 'prompt'>

/** Every word must be somewhere in the question, its facts, the flow, the task or the id of the run. */
export function matches(one: Searched, search: string): boolean {
  const text = `${one.run_id} ${one.task} ${one.flow_name} ${JSON.stringify(searchedIn(one.prompt))}`.toLowerCase()
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word))
}

/** The names in the schema of a form are not what people search for. */
function searchedIn(prompt: Record<string, unknown> | null): Record<string, unknown> {
  return { question: prompt?.question, ...factsIn(prompt) }
}

export function sorted(items: Approval[], order: Order): Approval[] {
  const deadline = (one: Approval) => one.deadline_at ?? Number.POSITIVE_INFINITY
  switch (order) {
    case 'newest':
      return items.toSorted((one, other) => other.since - one.since)
    case 'deadline':
      return items.toSorted((one, other) => deadline(one) - deadline(other) || one.since - other.since)
    default:
      return items.toSorted((one, other) => one.since - other.since)
  }
}
