import { useState } from 'preact/hooks'
import { snippets } from '../snippets'
import type { Status } from '../types'
import { Copy, Show, useLoad } from '../ui/load'

export function Integrations() {
  const status = useLoad('/v1/status')
  return (
    <>
      <h1>Integrations</h1>
      <p class="quiet">
        Ways to use this node, with its addresses filled in. Each is complete and works as it is; proxies also have the
        address of a second node, for restarts without a gap.
      </p>
      <Show of={status}>{(s) => <Snippets status={s} />}</Show>
    </>
  )
}

function Snippets({ status }: { status: Status }) {
  const all = snippets(status.addresses)
  const [chosen, setChosen] = useState(0)
  const s = all[chosen]!
  return (
    <>
      <div class="choice" role="group" aria-label="Integration">
        {all.map((one, i) => (
          <button key={one.name} type="button" aria-pressed={i === chosen} onClick={() => setChosen(i)}>
            {one.name}
          </button>
        ))}
      </div>
      <p>{s.about}</p>
      <div class="copy">
        <Copy text={s.text} />
        <pre tabIndex={0}>{s.text}</pre>
      </div>
    </>
  )
}
