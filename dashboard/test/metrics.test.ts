import { expect, test } from 'vitest'
import { familiesIn } from '../src/pages/system/metrics-text'

test('families with their samples, without buckets', () => {
  const text = [
    '# HELP pyoco_runs How many runs stand in each status.',
    '# TYPE pyoco_runs gauge',
    'pyoco_runs{status="PENDING"} 3.0',
    'pyoco_runs{status="RUNNING"} 1',
    '# HELP pyoco_wait_seconds How long runs waited.',
    '# TYPE pyoco_wait_seconds histogram',
    'pyoco_wait_seconds_bucket{le="0.1"} 4',
    'pyoco_wait_seconds_sum 2.5',
    'pyoco_wait_seconds_count 4',
    '# HELP empty Nothing of it.',
    '',
  ].join('\n')
  expect(familiesIn(text)).toEqual([
    {
      name: 'pyoco_runs',
      help: 'How many runs stand in each status.',
      kind: 'gauge',
      samples: [
        { name: 'pyoco_runs', labels: 'status="PENDING"', value: 3 },
        { name: 'pyoco_runs', labels: 'status="RUNNING"', value: 1 },
      ],
    },
    {
      name: 'pyoco_wait_seconds',
      help: 'How long runs waited.',
      kind: 'histogram',
      samples: [
        { name: 'pyoco_wait_seconds_sum', labels: '', value: 2.5 },
        { name: 'pyoco_wait_seconds_count', labels: '', value: 4 },
      ],
    },
  ])
})
