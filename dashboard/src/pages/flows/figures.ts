// Figures of a flow's latest runs. Pure.

export type Success = { percent: number; judged: number; cancelled: number }

/** A cancelled run neither succeeded nor failed: it is not part of the rate. Null: there is nothing to judge. */
export function successOf(ended: Record<string, number>): Success | null {
  const good = ended.COMPLETED ?? 0
  const judged = good + (ended.FAILED ?? 0)
  if (judged === 0) return null
  return { percent: Math.round((good / judged) * 100), judged, cancelled: ended.CANCELLED ?? 0 }
}
