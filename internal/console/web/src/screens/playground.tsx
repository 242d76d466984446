import { useEffect, useState } from 'preact/hooks'
import { type Failure, post } from '../api'
import { duration, limit } from '../format'
import { game, generate, kinds, type Lane, presets, readArrivals } from '../play'
import type { Arrival, Played, PlayedLane } from '../types'
import { Answer } from '../ui/badge'
import { Trouble } from '../ui/load'
import { Race } from './race'

// Playground shows limits side by side on the same arrivals, decided by the server's own code.
export function Playground() {
  const [played, setPlayed] = useState<Played>()
  const [wrong, setWrong] = useState<Error>()
  const [chosen, setChosen] = useState(0)
  const g = game.value
  useEffect(() => {
    const gone = new AbortController()
    setChosen(0)
    post('/v1/playground', {
      body: { lanes: g.lanes, arrivals: g.arrivals, hold_ms: g.hold_ms ?? 0 },
      signal: gone.signal,
    }).then(
      (p) => {
        setPlayed(p)
        setWrong(undefined)
      },
      (err: Failure) => {
        if (!gone.signal.aborted) setWrong(err)
      },
    )
    return () => gone.abort()
  }, [g])
  return (
    <>
      <h1>Playground</h1>
      <div class="choice" role="group" aria-label="Examples">
        {presets.map((p) => (
          <button
            key={p.name}
            type="button"
            aria-pressed={p === g}
            onClick={() => {
              game.value = p
            }}
          >
            {p.name}
          </button>
        ))}
      </div>
      <p>{g.about}</p>
      {wrong && <Trouble error={wrong} />}
      {played && <Lanes played={played} arrivals={g.arrivals} chosen={chosen} choose={setChosen} />}
      <Arrivals />
      <LaneEditor />
      <Race />
    </>
  )
}

const width = 1000

function Lanes({
  played,
  arrivals,
  chosen,
  choose,
}: {
  played: Played
  arrivals: Arrival[]
  chosen: number
  choose: (i: number) => void
}) {
  const x = (ms: number) => (width * ms) / played.span_ms
  const add = (e: MouseEvent) => {
    const box = (e.currentTarget as SVGElement).getBoundingClientRect()
    const at = Math.round(((e.clientX - box.left) / box.width) * played.span_ms)
    game.value = {
      ...game.value,
      name: 'Yours',
      about: 'Click on the line of arrivals to add a call.',
      arrivals: [...game.value.arrivals, { at_ms: at }].sort((a, b) => a.at_ms - b.at_ms),
    }
  }
  return (
    <section class="lanes">
      <div class="lane">
        <div class="lane-name">
          Arrivals<span class="quiet">{arrivals.length} calls; click to add one</span>
        </div>
        <svg
          viewBox={`0 0 ${width} 34`}
          preserveAspectRatio="none"
          class="arrivals"
          onClick={add}
          role="img"
          aria-label={`${arrivals.length} calls arrive within ${duration(played.span_ms)}`}
        >
          {arrivals.map((a, i) => (
            <line key={i} x1={x(a.at_ms)} x2={x(a.at_ms)} y1="6" y2="30" />
          ))}
        </svg>
      </div>
      {played.lanes.map((l) => (
        <LaneView key={l.name} lane={l} x={x} chosen={chosen} choose={choose} />
      ))}
      <div class="lane">
        <div class="lane-name" />
        <div class="ticks quiet">
          {[0, 0.25, 0.5, 0.75, 1].map((f) => (
            <span key={f}>{duration(played.span_ms * f)}</span>
          ))}
        </div>
      </div>
      <Steps lanes={played.lanes} chosen={chosen} />
    </section>
  )
}

function LaneView({
  lane,
  x,
  chosen,
  choose,
}: {
  lane: PlayedLane
  x: (ms: number) => number
  chosen: number
  choose: (i: number) => void
}) {
  const top = Math.max(lane.limit, ...lane.curve.map((p) => p.used), 1)
  const y = (used: number) => 84 - (70 * used) / top
  const line = lane.curve.map((p) => `${x(p.at_ms).toFixed(1)},${y(p.used).toFixed(1)}`).join(' ')
  // Calls of the same instant are drawn above each other.
  const above: number[] = []
  const seen = new Map<number, number>()
  for (const s of lane.steps) {
    const n = seen.get(s.at_ms) ?? 0
    above.push(n)
    seen.set(s.at_ms, n + 1)
  }
  return (
    <div class="lane">
      <div class="lane-name">
        {lane.name}
        <span class="quiet">{limit(lane.text)}</span>
        <span>
          <b class="good-text">{lane.allowed}</b> allowed, <b class="bad-text">{lane.denied}</b> denied
        </span>
      </div>
      <div class="drawn">
        <svg
          viewBox={`0 0 ${width} 90`}
          preserveAspectRatio="none"
          role="img"
          aria-label={`${lane.name}: ${lane.allowed} allowed, ${lane.denied} denied`}
        >
          <line class="limit" x1="0" x2={width} y1={y(lane.limit)} y2={y(lane.limit)} />
          <polygon points={`0,84 ${line} ${width},84`} class="level" />
          <polyline points={line} class="curve" />
        </svg>
        {lane.steps.map((s, i) => (
          <button
            key={i}
            type="button"
            class={`step ${s.allowed ? 'yes' : 'no'} ${i === chosen ? 'chosen' : ''}`}
            ref={(el) => {
              if (el) {
                el.style.left = `${x(s.at_ms) / 10}%`
                el.style.top = `${4 + Math.min(6, above[i]!) * 11}px`
              }
            }}
            title={`${duration(s.at_ms)}: ${s.allowed ? 'allowed' : 'denied'}${s.delay_ms > 0 ? `, held for ${duration(s.delay_ms)}` : ''}`}
            aria-label={`call ${i + 1} at ${duration(s.at_ms)}: ${s.allowed ? 'allowed' : 'denied'}`}
            onClick={() => choose(i)}
          />
        ))}
      </div>
    </div>
  )
}

function Steps({ lanes, chosen }: { lanes: PlayedLane[]; chosen: number }) {
  const at = lanes[0]?.steps[chosen]
  if (!at) return null
  return (
    <>
      <h2>
        Call {chosen + 1}, after {duration(at.at_ms)}
      </h2>
      <div class="cards">
        {lanes.map((l) => {
          const s = l.steps[chosen]!
          return (
            <div class="card" key={l.name}>
              <h3>
                {l.name} <Answer allowed={s.allowed} />
              </h3>
              <Bucket lane={l} used={s.used} />
              <p class="quiet">
                {s.used} of {l.limit} used, {s.remaining} left.
                {s.delay_ms > 0 && ` Held for ${duration(s.delay_ms)}.`}
                {!s.allowed &&
                  (s.retry_after_ms === null ? ' It can never pass.' : ` Passes in ${duration(s.retry_after_ms)}.`)}
              </p>
              <pre tabIndex={0}>
                {[
                  s.allowed ? 'HTTP/1.1 200 OK' : 'HTTP/1.1 429 Too Many Requests',
                  ...Object.entries(s.headers).map(([n, v]) => `${n}: ${v}`),
                ].join('\n')}
              </pre>
            </div>
          )
        })}
      </div>
    </>
  )
}

// Bucket draws coins that are left, or water that stands.
function Bucket({ lane, used }: { lane: PlayedLane; used: number }) {
  const coins = lane.algorithm === 'token_bucket'
  if ((!coins && lane.algorithm !== 'leaky_bucket') || lane.limit > 24) return null
  const n = Math.max(0, Math.min(lane.limit, coins ? lane.limit - used : used))
  const columns = Math.min(6, lane.limit)
  return (
    <svg
      class="bucket"
      viewBox="0 0 120 70"
      role="img"
      aria-label={coins ? `${n} coins left` : `${n} of ${lane.limit} calls in the bucket`}
    >
      <path d="M8 6 L16 64 H104 L112 6" class="rim" />
      {coins ? (
        Array.from({ length: n }, (_, i) => (
          <circle key={i} cx={24 + (i % columns) * 14} cy={56 - Math.floor(i / columns) * 13} r="5.5" class="coin" />
        ))
      ) : (
        <path
          d={`M${16 - (8 * 58 * n) / lane.limit / 58} ${64 - (56 * n) / lane.limit} L16 64 H104 L${104 + (8 * n) / lane.limit} ${64 - (56 * n) / lane.limit} Z`}
          class="water"
        />
      )}
    </svg>
  )
}

function Arrivals() {
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
          use(generate(kind, rate, minutes), `${rate} calls a minute, ${kind}.`)
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
          Calls a minute{' '}
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
          onClick={() => use(game.value.arrivals.slice(0, 1), 'Click on the line of arrivals to add calls.')}
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

function LaneEditor() {
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
