import { mayChange } from '../api'
import { attributes, writeAttributes } from '../attributes'
import { query } from '../request'
import type { Attributes } from '../types'

// Who is a client. A viewer sees hashes instead of values, and cannot look up a client.
export function Who({ of, rule }: { of: Attributes; rule: string }) {
  const name = <code>{attributes(of) || '(everybody)'}</code>
  return mayChange() ? <a href={`/keys${query({ q: writeAttributes(of), rule })}`}>{name}</a> : name
}

// Veiled tells viewers that values are hidden.
export function Veiled() {
  if (mayChange()) return null
  return (
    <p class="quiet">
      Viewers see <code>#</code> and part of a hash instead of attribute values. Operators see the values.
    </p>
  )
}
