import { useState } from 'preact/hooks'
import { del, type Failure, get, post } from '../api'
import { attributes } from '../attributes'
import { instant } from '../format'
import { query } from '../request'
import type { Ban, Block } from '../types'
import { Trouble, useLoad, usePolled } from '../ui/load'
import { actions, Table } from '../ui/table'
import { offerUndo } from '../ui/undo'
import { Who } from '../ui/who'
import { BlockForm } from './blockform'

// left returns the time until an instant as a duration of the API, at least a second.
export function left(until: string): string {
  return `${Math.max(1, Math.round((Date.parse(until) - Date.now()) / 1000))}s`
}

// liftBlock ends a block, and offers to block the key again for the rest of its time.
async function liftBlock(b: Block) {
  await del('/v1/blocks', { body: { id: b.id } })
  offerUndo(`Lifted the block of ${attributes(b.key)}.`, () =>
    post('/v1/blocks', {
      body: { attributes: b.key, domain: b.domain, duration: left(b.until), reason: b.reason },
    }),
  )
}

// LiftBlock is a button that ends a block.
export function LiftBlock({ of, done }: { of: Block; done: () => void }) {
  const [error, setError] = useState<Failure>()
  const lift = () => liftBlock(of).then(done, (err: Failure) => setError(err))
  return (
    <>
      <button type="button" class="small" onClick={() => void lift()}>
        Lift block
      </button>
      {error && <Trouble error={error} />}
    </>
  )
}

// allBans gets the bans of all rules, as far as a few pages go.
async function allBans(signal: AbortSignal): Promise<{ bans: Ban[]; more: boolean }> {
  const bans: Ban[] = []
  let cursor: string | undefined
  for (let page = 0; page < 10; page++) {
    const found = await get('/v1/bans', { query: { cursor }, signal })
    bans.push(...found.bans)
    cursor = found.next
    if (!cursor) break
  }
  return { bans, more: cursor !== undefined }
}

// Denied lists who is blocked or banned now, why, by whom and until when.
export function Denied() {
  const [form, setForm] = useState(false)
  const blocks = useLoad('/v1/blocks', { every: 2000 })
  const bans = usePolled('bans', 5000, allBans)
  const rows = blocks.data?.blocks ?? []
  return (
    <section>
      <div class="head">
        <h2>Blocked and banned</h2>
        <span class="grow" />
        <button type="button" aria-expanded={form} onClick={() => setForm(!form)}>
          Block a key
        </button>
      </div>
      {form && (
        <BlockForm
          cancel={() => setForm(false)}
          done={() => {
            setForm(false)
            blocks.again()
          }}
        />
      )}
      {blocks.error && <Trouble error={blocks.error} />}
      {bans.error && <Trouble error={bans.error} />}
      {rows.length + (bans.data?.bans.length ?? 0) === 0 ? (
        <p class="quiet">No client is blocked or banned. To block one, press Block a key.</p>
      ) : (
        <Table name="Blocks" columns={['Client', 'Type', 'Reason', 'By', 'Until', actions]}>
          {rows.map((b) => (
            <tr key={b.id}>
              <td>
                <Who of={b.key} rule="" /> {b.domain && `in ${b.domain}`}
              </td>
              <td>block</td>
              <td>{b.reason}</td>
              <td>{b.author}</td>
              <td>{instant(b.until)}</td>
              <td class="actions">
                <LiftBlock of={b} done={blocks.again} />
              </td>
            </tr>
          ))}
          {bans.data?.bans.map((b) => (
            <tr key={b.rule + b.subject}>
              <td>{b.key ? <Who of={b.key} rule={b.rule} /> : <code>hash {b.subject.slice(0, 12)}</code>}</td>
              <td>
                ban by <a href={`/rules${query({ rule: b.rule })}`}>{b.rule}</a>
              </td>
              <td>{b.reason ?? (b.author ? '' : 'penalty')}</td>
              <td>{b.author ?? 'the rule'}</td>
              <td>{instant(b.until)}</td>
              <td />
            </tr>
          ))}
        </Table>
      )}
      {bans.data?.more && <p class="quiet">There may be more bans. To list all, run penstock keys list --banned.</p>}
    </section>
  )
}
