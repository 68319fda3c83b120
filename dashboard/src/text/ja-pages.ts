// 実行ページ以外の日本語。`ja.ts` の一部。
import type { enPages } from './en-pages'

export const jaPages: Record<keyof typeof enPages, string> = {
  'approvals.approved': '承認しました。実行 {run} は続行します。',
  'approvals.rejected': '却下しました。実行 {run} はこの承認で止まります。',

  'wheels.noSync': 'wheel を同期するワーカーがないため、アップロードした wheel は使われません。同期を有効にして起動します:',

  'runs.why.answer': '回答待ち: {keys}',
  'runs.why.sleep': 'スリープ中',
  'runs.why.noWorker': 'タグ {tag} に対応するワーカーがありません',
  'runs.why.draining': 'タグ {tag} のワーカーはすべてドレイン中です',
  'runs.why.busy': 'タグ {tag} のワーカーはすべて使用中です',
}
