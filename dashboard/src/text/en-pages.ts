// English texts of the pages other than that of one run: a part of `en.ts`.
export const enPages = {
  'approvals.approved': 'Approved. Run {run} continues.',
  'approvals.rejected': 'Rejected. Run {run} stops at this approval.',

  'wheels.noSync': 'No live worker syncs wheels, so uploaded wheels are not used. Start a worker with wheel sync:',
}
