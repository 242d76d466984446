import { useState } from 'preact/hooks'
import { type Failure, get, mayChange, post } from '../api'
import { instant } from '../format'
import type { Version } from '../types'
import { Show, Trouble, useLoad } from '../ui/load'
import { actions, Table } from '../ui/table'
import { Diff } from './changes'

export function History({ editable, current, changed }: { editable: boolean; current: number; changed: () => void }) {
  const [wrong, setWrong] = useState<Failure>()
  const [diff, setDiff] = useState<{ version: number; text: string }>()
  const versions = useLoad('/v1/rules/versions', { every: 5000 })
  const show = async (v: Version) => {
    if (v.version === 1) {
      const first = await get('/v1/rules/versions/{number}', { path: { number: 1 } })
      setDiff({ version: 1, text: (first.document ?? '').replace(/^/gm, '+') })
      return
    }
    const answer = await post('/v1/rules/diff', { body: { from: v.version - 1, to: v.version } })
    setDiff({ version: v.version, text: answer.text ?? '' })
  }
  const rollBack = async (v: Version) => {
    if (!window.confirm(`Restore version ${v.version}? It takes effect on every node within seconds.`)) return
    try {
      await post('/v1/rules/rollback', {
        body: { to: v.version, base: current, message: `Roll back to version ${v.version}` },
      })
      setWrong(undefined)
      changed()
    } catch (err) {
      setWrong(err as Failure)
    }
  }
  return (
    <section>
      <h2>History</h2>
      {wrong && <Trouble error={wrong} />}
      <Show of={versions}>
        {(found) =>
          found.versions.length === 0 ? (
            <p class="quiet">No version is saved yet. Saving rules makes the first one.</p>
          ) : (
            <Table name="Versions" columns={['Version', 'When', 'Author', 'Message', actions]}>
              {found.versions.map((v) => (
                <tr key={v.version}>
                  <td>
                    {v.version}
                    {v.version === current ? ' (current)' : ''}
                  </td>
                  <td>{instant(v.at)}</td>
                  <td>{v.author}</td>
                  <td>
                    {v.message}
                    {v.restores ? ` (again ${v.restores})` : ''}
                  </td>
                  <td class="actions">
                    <button type="button" class="small" onClick={() => void show(v)}>
                      Changes
                    </button>
                    {editable && mayChange() && v.version !== current && (
                      <button type="button" class="small" onClick={() => void rollBack(v)}>
                        Roll back
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Show>
      {diff && (
        <>
          <h3>Changes of version {diff.version}</h3>
          <Diff text={diff.text} />
        </>
      )}
    </section>
  )
}
