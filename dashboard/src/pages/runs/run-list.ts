// The rows of a list: pages from the server below, what changes now on top. Plain values, no React.
//
// At the top of the list a changed run moves to the front, as the server's order has it. While the reader is further
// down nothing moves under their eyes: runs are changed where they stand, and what would come on top is counted.
// In a list that is sorted by what does not change, a new run gets its place, and a changed one keeps it.
// A page is left open all day: at the top the far end is let go, and read again by whoever goes there.
import type { RunSummary } from '../../api/types'
import { type Compare, merged } from './order'

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
  /** What changed since then, and has its place in a page that is not read yet. */
  private changedMeanwhile = new Map<string, RunSummary>()

  constructor(private readonly compare: Compare | null = null) {}

  /** A page is asked for, and will be appended. */
  expectPage(): void {
    this.leftMeanwhile.clear()
    this.changedMeanwhile.clear()
  }

  /** Pages come from the newest on; what was told meanwhile of a run is newer than the page. */
  append(page: RunSummary[]): void {
    const isTold = (id: string) => this.known.has(id) || this.fresh.has(id) || this.leftMeanwhile.has(id)
    const more = page.filter((run) => !isTold(run.run_id)).map((run) => this.changedMeanwhile.get(run.run_id) ?? run)
    for (const run of more) this.known.set(run.run_id, run)
    this.rows = this.rows.concat(more)
  }

  /** `isWhole`: there are no more pages. */
  change(
    changed: RunSummary[],
    gone: string[],
    fits: (run: RunSummary) => boolean,
    atTop: boolean,
    isWhole = false,
  ): void {
    const left = new Set(gone)
    const front: RunSummary[] = []
    const replaced = new Map<string, RunSummary>()
    for (const run of changed) {
      const staysThere = this.known.has(run.run_id) && (this.compare !== null || !atTop)
      if (!fits(run)) left.add(run.run_id)
      else if (staysThere) replaced.set(run.run_id, run)
      else if (this.isOfLaterPage(run, isWhole)) this.note(run)
      else if (atTop) front.unshift(run)
      else this.wait(run)
    }
    for (const id of left) this.leave(id)
    this.rebuild(front, replaced, left, isWhole)
  }

  private note(run: RunSummary): void {
    this.changedMeanwhile.set(run.run_id, run)
    const [first] = this.changedMeanwhile.keys()
    if (this.changedMeanwhile.size > LEFT_MAX && first !== undefined) this.changedMeanwhile.delete(first)
  }

  /** In a sorted list its place is behind the last row, and its page will bring it. */
  private isOfLaterPage(run: RunSummary, isWhole: boolean): boolean {
    const last = this.rows.at(-1)
    return this.compare !== null && !isWhole && (last === undefined || this.compare(run, last) > 0)
  }

  /** The latest of what waits is the last, however often it has changed. */
  private wait(run: RunSummary): void {
    this.fresh.delete(run.run_id)
    if (this.fresh.size < FRESH_MAX) this.fresh.set(run.run_id, run)
    else this.overrun = true
  }

  private leave(id: string): void {
    this.changedMeanwhile.delete(id)
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

  showFresh(isWhole = false): void {
    const front = [...this.fresh.values()].reverse()
    this.fresh.clear()
    this.rebuild(front, new Map(), new Set(), isWhole)
  }

  private rebuild(front: RunSummary[], replaced: Map<string, RunSummary>, left: Set<string>, isWhole: boolean): void {
    const moved = new Set(front.map((run) => run.run_id))
    const touches = (id: string) => moved.has(id) || left.has(id)
    const rest = this.rows.filter((run) => !touches(run.run_id)).map((run) => replaced.get(run.run_id) ?? run)
    this.rows = this.compare === null ? front.concat(rest) : merged(rest, front, this.compare, isWhole)
    for (const id of left) this.known.delete(id)
    for (const run of replaced.values()) this.known.set(run.run_id, run)
    const last = this.compare === null ? undefined : this.rows.at(-1)
    for (const run of front) {
      // What its own page will bring is not known yet.
      if (this.compare === null || (last && this.compare(run, last) <= 0)) this.known.set(run.run_id, run)
    }
  }
}
