// English texts of the pages other than that of one run: a part of `en.ts`.
export const enPages = {
  'approvals.approved': 'Approved. Run {run} continues.',
  'approvals.rejected': 'Rejected. Run {run} stops at this approval.',

  'wheels.noSync': 'No live worker syncs wheels, so uploaded wheels are not used. Start a worker with wheel sync:',

  'runs.why.answer': 'Waiting for an answer: {keys}',
  'runs.why.sleep': 'Sleeping',
  'runs.why.noWorker': 'No live worker serves the tag {tag}',
  'runs.why.draining': 'All workers of the tag {tag} are draining',
  'runs.why.busy': 'All workers of the tag {tag} are busy',
}
