import { duration, limit } from '../format'
import { game } from '../play'
import type { Arrival, Played, PlayedLane } from '../types'
import { Answer } from '../ui/badge'

const width = 1000

export function Lanes({
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
      about: 'Click the timeline to add a request.',
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
  // Requests of the same instant are drawn above each other.
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

// Bucket draws the tokens that are left, or the water level.
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
