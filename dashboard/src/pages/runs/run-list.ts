// The rows of a list: pages from the server below, what changes now on top. Plain values, no React.
//
// At the top of the list a changed run moves to the front, as the server's order has it. While the reader is further
// down nothing moves under their eyes: runs are changed where they stand, and what would come on top is counted.
// A page is left open all day: at the top the far end is let go, and read again by whoever goes there.
import type { RunSummary } from '../../api/types'

/** Rows at the top of a list that goes on by itself; when there are twice as many, the rest is let go. */
export const KEPT_AT_TOP = 1000
/** More than this that came meanwhile is not kept: the list is read anew instead. */
export const FRESH_MAX = 2000

/** So many that left while a page was under way are remembered; the first of them are forgotten first. */
export const LEFT_MAX = 5000

export class RunList {
  rows: RunSummary[] = []
  /** Whether more came meanwhile than is kept for whoever looks elsewhere. */
  overrun = false
  /** What waits to be shown on top. */
  fresh = new Map<string, RunSummary>()
  private known = new Map<string, RunSummary>()
  /** What left since the page under way was asked for: it may have it still. */
  private leftMeanwhile = new Set<string>()

  /** A page is asked for, and will be appended. */
  expectPage(): void {
    this.leftMeanwhile.clear()
  }

  /** Pages come from the newest on; what was told meanwhile of a run is newer than the page. */
  append(page: RunSummary[]): void {
    const isTold = (id: string) => this.known.has(id) || this.fresh.has(id) || this.leftMeanwhile.has(id)
    const more = page.filter((run) => !isTold(run.run_id))
    for (const run of more) this.known.set(run.run_id, run)
    this.rows = this.rows.concat(more)
  }

  change(changed: RunSummary[], gone: string[], fits: (run: RunSummary) => boolean, atTop: boolean): void {
    const left = new Set(gone)
    const front: RunSummary[] = []
    const replaced = new Map<string, RunSummary>()
    for (const run of changed) {
      if (!fits(run)) left.add(run.run_id)
      else if (atTop) front.unshift(run)
      else if (this.known.has(run.run_id)) replaced.set(run.run_id, run)
      else this.wait(run)
    }
    for (const id of left) this.leave(id)
    this.rebuild(front, replaced, left)
  }

  /** The latest of what waits is the last, however often it has changed. */
  private wait(run: RunSummary): void {
    this.fresh.delete(run.run_id)
    if (this.fresh.size < FRESH_MAX) this.fresh.set(run.run_id, run)
    else this.overrun = true
  }

  private leave(id: string): void {
    this.fresh.delete(id)
    this.leftMeanwhile.delete(id)
    this.leftMeanwhile.add(id)
    const [first] = this.leftMeanwhile
    if (this.leftMeanwhile.size > LEFT_MAX && first !== undefined) this.leftMeanwhile.delete(first)
  }

  /** Of a list that has grown by itself only the top stays. Whether something was let go. */
  trim(): boolean {
    if (this.rows.length <= 2 * KEPT_AT_TOP) return false
    for (const run of this.rows.slice(KEPT_AT_TOP)) this.known.delete(run.run_id)
    this.rows = this.rows.slice(0, KEPT_AT_TOP)
    return true
  }

  showFresh(): void {
    const front = [...this.fresh.values()].reverse()
    this.fresh.clear()
    this.rebuild(front, new Map(), new Set())
  }

  private rebuild(front: RunSummary[], replaced: Map<string, RunSummary>, left: Set<string>): void {
    const moved = new Set(front.map((run) => run.run_id))
    const touches = (id: string) => moved.has(id) || left.has(id)
    const rest = this.rows.filter((run) => !touches(run.run_id)).map((run) => replaced.get(run.run_id) ?? run)
    this.rows = front.concat(rest)
    for (const id of left) this.known.delete(id)
    for (const run of [...front, ...replaced.values()]) this.known.set(run.run_id, run)
  }
}
