import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { type Failure, mayChange, put } from '../api'
import { count } from '../format'
import { Badge } from './badge'
import { Trouble, useLoad } from './load'

// none is set once the server has said that it has no demo.
const none = signal(false)

// DemoTraffic turns simulated clients on and off, if there are any. With whileOn it is shown only while they send
// requests.
export function DemoTraffic({ whileOn = false }: { whileOn?: boolean }) {
  const demo = useLoad(none.value ? null : '/v1/demo', { every: 2000 })
  const [wrong, setWrong] = useState<Failure>()
  const absent = demo.error?.status === 404
  useEffect(() => {
    if (absent) none.value = true
  }, [absent])
  const d = demo.data
  if (none.value || !d || (whileOn && !d.running)) return null
  const turn = async () => {
    try {
      await put('/v1/demo', { body: { running: !d.running } })
      setWrong(undefined)
    } catch (err) {
      setWrong(err as Failure)
    }
    demo.again()
  }
  return (
    <div class="demo">
      {d.running && <Badge kind="shadow">demo traffic</Badge>}
      <span class="quiet">
        {d.running
          ? `${count(d.allowed)} allowed, ${count(d.denied)} denied so far`
          : `Simulated clients can send up to ${d.per_second} requests per second to this gateway.`}
        {d.failed > 0 && `, ${count(d.failed)} failed`}
      </span>
      {mayChange() && (
        <button type="button" class={d.running ? 'small' : 'primary'} onClick={() => void turn()}>
          {d.running ? 'Stop demo traffic' : 'Send demo traffic'}
        </button>
      )}
      {wrong && <Trouble error={wrong} />}
    </div>
  )
}
