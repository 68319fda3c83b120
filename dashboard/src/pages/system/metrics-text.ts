// Prometheus' text format, as far as a table needs it. Pure.

export type Sample = { name: string; labels: string; value: number }
export type Family = { name: string; help: string; kind: string; samples: Sample[] }

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/
/** Of a histogram the sum and the count say enough; its buckets are for programs. */
const BUCKET = /_bucket$/

export function familiesIn(text: string): Family[] {
  const families = new Map<string, Family>()
  for (const line of text.split('\n')) {
    const said = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line)
    if (said) {
      const [, what, name = '', rest = ''] = said
      const family = familyOf(families, name)
      if (what === 'HELP') family.help = rest
      else family.kind = rest
      continue
    }
    const found = line.startsWith('#') ? null : LINE.exec(line)
    if (!found) continue
    const [, name = '', labels = '', value = ''] = found
    if (BUCKET.test(name)) continue
    const owner = families.has(name) ? name : name.replace(/_(sum|count|total|created)$/, '')
    familyOf(families, owner).samples.push({ name, labels, value: Number(value) })
  }
  return [...families.values()].filter((family) => family.samples.length > 0)
}

function familyOf(families: Map<string, Family>, name: string): Family {
  const known = families.get(name)
  if (known) return known
  const family: Family = { name, help: '', kind: '', samples: [] }
  families.set(name, family)
  return family
}
