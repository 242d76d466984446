import type { ComponentChildren } from 'preact'

export function Badge({ kind, children }: { kind: string; children: ComponentChildren }) {
  return <span class={`badge ${kind}`}>{children}</span>
}

export function Answer({ allowed }: { allowed: boolean }) {
  return <Badge kind={allowed ? 'allowed' : 'denied'}>{allowed ? 'allowed' : 'denied'}</Badge>
}
