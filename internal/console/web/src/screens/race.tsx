import { useState } from 'preact/hooks'
import { Badge } from '../ui/badge'

interface Moment {
  a: string
  b: string
  store: string
  note: string
}

// Two nodes, one of ten requests left, and two concurrent requests.
const apart: Moment[] = [
  { a: '', b: '', store: 'used = 9', note: 'Nine of ten are used. Two requests arrive, one at each node.' },
  { a: 'GET → 9', b: '', store: 'used = 9', note: 'Node A reads how many are used.' },
  { a: '9 < 10: allowed', b: 'GET → 9', store: 'used = 9', note: 'Node B reads before A has written.' },
  { a: 'SET 10', b: '9 < 10: allowed', store: 'used = 10', note: 'A writes what it has counted.' },
  {
    a: 'done',
    b: 'SET 10',
    store: 'used = 10',
    note: 'B writes the same value. Eleven requests were allowed, but the counter says ten.',
  },
]
const script: Moment[] = [
  { a: '', b: '', store: 'used = 9', note: 'The same two requests. Each node sends one script.' },
  { a: 'EVALSHA', b: 'EVALSHA', store: 'used = 9', note: 'Redis runs scripts one after the other, whole.' },
  {
    a: '9 < 10: allowed',
    b: 'waits',
    store: 'used = 10',
    note: "A's script reads, decides and writes before anything else happens.",
  },
  {
    a: 'done',
    b: '10 = 10: denied',
    store: 'used = 10',
    note: "B's script sees what A's has written. Exactly ten were allowed.",
  },
]

// Race shows step by step why separate reads and writes allow too many requests, and why one script does not. The
// benchmark in bench/atomicity does it for real, with several nodes.
export function Race() {
  const [one, setOne] = useState(false)
  const [at, setAt] = useState(0)
  const story = one ? script : apart
  const now = story[at]!
  const last = at === story.length - 1
  return (
    <section>
      <h2>Why one script is needed</h2>
      <div class="choice" role="group" aria-label="Store operation">
        <button
          type="button"
          aria-pressed={!one}
          onClick={() => {
            setOne(false)
            setAt(0)
          }}
        >
          Read, then write
        </button>
        <button
          type="button"
          aria-pressed={one}
          onClick={() => {
            setOne(true)
            setAt(0)
          }}
        >
          One script
        </button>
      </div>
      <div class="race" aria-live="polite">
        <div class="card">
          <h3>Node A</h3>
          <code>{now.a || '…'}</code>
        </div>
        <div class="card">
          <h3>Redis</h3>
          <code>{now.store}</code>
        </div>
        <div class="card">
          <h3>Node B</h3>
          <code>{now.b || '…'}</code>
        </div>
      </div>
      <p>
        {now.note} {last && (one ? <Badge kind="allowed">exact</Badge> : <Badge kind="denied">one too many</Badge>)}
      </p>
      <div class="row">
        <button type="button" disabled={at === 0} onClick={() => setAt(at - 1)}>
          Back
        </button>
        <button type="button" class="primary" disabled={last} onClick={() => setAt(at + 1)}>
          Step
        </button>
        <span class="quiet">
          {at + 1} of {story.length}
        </span>
      </div>
    </section>
  )
}
