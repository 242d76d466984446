import { useState } from 'preact/hooks'
import { game, generate, kinds, type Lane, readArrivals } from '../play'
import type { Arrival } from '../types'

export function Arrivals() {
  const [kind, setKind] = useState('bursts')
  const [rate, setRate] = useState(20)
  const [minutes, setMinutes] = useState(3)
  const [text, setText] = useState('')
  const [wrong, setWrong] = useState('')
  const use = (arrivals: Arrival[], about: string) => {
    game.value = { ...game.value, name: 'Yours', about, arrivals }
  }
  const paste = (e: Event) => {
    e.preventDefault()
    const read = readArrivals(text)
    setWrong(read.wrong ? `"${read.wrong}" is no time` : read.found.length === 0 ? 'There are no times.' : '')
    if (!read.wrong && read.found.length > 0) use(read.found, 'Your times.')
  }
  return (
    <section>
      <h2>Other arrivals</h2>
      <form
        class="row"
        onSubmit={(e) => {
          e.preventDefault()
          use(generate(kind, rate, minutes), `${rate} requests per minute, ${kind}.`)
        }}
      >
        <label>
          How they come{' '}
          <select value={kind} onChange={(e) => setKind(e.currentTarget.value)}>
            <option>bursts</option>
            <option>random</option>
            <option>even</option>
          </select>
        </label>
        <label>
          Requests per minute{' '}
          <input type="number" min={1} max={600} value={rate} onInput={(e) => setRate(Number(e.currentTarget.value))} />
        </label>
        <label>
          Minutes{' '}
          <input
            type="number"
            min={1}
            max={60}
            value={minutes}
            onInput={(e) => setMinutes(Number(e.currentTarget.value))}
          />
        </label>
        <button type="submit">Generate</button>
        <button
          type="button"
          onClick={() => use(game.value.arrivals.slice(0, 1), 'Click the timeline to add requests.')}
        >
          Clear
        </button>
      </form>
      <form class="row" onSubmit={paste}>
        <label class="grow">
          Or times, in seconds or with a unit{' '}
          <input
            class="wide"
            placeholder="0 0.5 1s 59sx5 1m 1mx5"
            value={text}
            onInput={(e) => setText(e.currentTarget.value)}
          />
        </label>
        <button type="submit">Use these</button>
      </form>
      {wrong && (
        <p class="trouble" role="alert">
          {wrong}
        </p>
      )}
    </section>
  )
}

export function LaneEditor() {
  const set = (lanes: Lane[]) => {
    game.value = { ...game.value, name: 'Yours', lanes }
  }
  const lanes = game.value.lanes
  const [count, setCount] = useState(10)
  const [window, setWindow] = useState('1m')
  return (
    <section>
      <h2>Other limits</h2>
      <ul class="list">
        {lanes.map((l, i) => (
          <li key={i}>
            <span class="grow">
              {l.name} <code>{JSON.stringify(l.limit)}</code>
            </span>
            {lanes.length > 1 && (
              <button type="button" class="small" onClick={() => set(lanes.filter((_, k) => k !== i))}>
                Remove
              </button>
            )}
          </li>
        ))}
      </ul>
      {lanes.length < 4 && (
        <div class="row">
          <label>
            Calls <input type="number" min={1} value={count} onInput={(e) => setCount(Number(e.currentTarget.value))} />
          </label>
          <label>
            In <input value={window} onInput={(e) => setWindow(e.currentTarget.value)} />
          </label>
          {kinds.map((k) => (
            <button
              key={k.name}
              type="button"
              onClick={() => set([...lanes, { name: `${k.name} ${lanes.length + 1}`, limit: k.make(count, window) }])}
            >
              {k.name}
            </button>
          ))}
        </div>
      )}
    </section>
  )
}
