import { visible } from '../attributes'
import type { Stats } from '../types'

interface Choice {
  id: string
  name: string
}

// NodeFilter chooses whose numbers are shown: those of all nodes, or of one. With one node there is nothing to choose.
export function NodeFilter({
  nodes,
  chosen,
  choose,
}: {
  nodes: Choice[]
  chosen: string
  choose: (n: string) => void
}) {
  if (nodes.length < 2 && chosen === '') return null
  const known = chosen === '' || nodes.some((n) => n.id === chosen || n.name === chosen)
  return (
    <label class="node-filter">
      Node{' '}
      <select aria-label="Node" value={chosen} onChange={(e) => choose(e.currentTarget.value)}>
        <option value="">all nodes</option>
        {!known && <option value={chosen}>{visible(chosen)}</option>}
        {nodes.map((n) => (
          <option key={n.id} value={n.name}>
            {visible(n.name)}
          </option>
        ))}
      </select>
    </label>
  )
}

// MissingNodes says whose numbers are not included.
export function MissingNodes({ of: stats }: { of: Stats }) {
  const missing = stats.nodes.filter((n) => !n.answered)
  if (missing.length === 0) return null
  return (
    <p class="warning" role="status">
      Without {missing.map((n) => visible(n.name)).join(', ')}: {missing[0]!.problem}.
    </p>
  )
}
