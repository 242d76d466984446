import { useEffect, useState } from 'preact/hooks'
import { type Failure, post } from '../api'
import { game, presets } from '../play'
import type { Played } from '../types'
import { Trouble } from '../ui/load'
import { Lanes } from './lanes'
import { Arrivals, LaneEditor } from './playinput'
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
