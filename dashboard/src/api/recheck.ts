// The words of the recheck face that the page uses.

export type Health = 'healthy' | 'degraded' | 'unknown'

export type Strategy = {
  id: string
  title: string
  instrument: string | null
  enabled: boolean
  last_health: Health | null
  last_checked_at: string | null
  tags: string[]
}

export type StrategyPage = { items: Strategy[]; page: number; page_size: number; total: number }

export type Metrics = { winrate: number | null; sharpe: number | null; max_dd: number | null }
export type StrategyResult = { completed_at: string; health: Health; metrics: Metrics; request_id: string }
export type StrategyDetail = { recent_results: StrategyResult[] }

export type Accepted = { request_id: string; estimated: { strategies: number; batches: number }; dry_run: boolean }

export type RecheckRequest = {
  request_id: string
  status: 'running' | 'success' | 'failed'
  submitted_at: string
  progress: { total_batches: number; completed_batches: number; total_strategies: number; completed_strategies: number }
  summary: { success: number; failed: number; health: Partial<Record<Health, number>> }
  dag?: { name: string; run_id: string; run_ids: string[] }
}
