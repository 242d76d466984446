import type { Attributes } from './types'

// visible shows characters that would be invisible or misleading: control characters and those that change the
// direction of text.
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

export function attributes(of: Attributes): string {
  return Object.entries(of)
    .map(([name, value]) => `${visible(name)}=${visible(value)}`)
    .join('  ')
}

// readAttributes reads name=value, separated by spaces; "a value" may have quotes.
export function readAttributes(text: string): { found: Attributes; wrong: string } {
  const found: Attributes = {}
  const parts = text.match(/[^\s=]+=("([^"\\]|\\.)*"|\S*)|\S+/g) ?? []
  for (const part of parts) {
    const at = part.indexOf('=')
    if (at < 1) return { found, wrong: part }
    const value = part.slice(at + 1)
    found[part.slice(0, at)] = /^".*"$/.test(value) ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value
  }
  return { found, wrong: '' }
}

// isBare reports whether a text is a bare value, not name=value: an address, a user, or a token, which may end in the =
// of base64.
export function isBare(text: string): boolean {
  const value = text.trim()
  return value !== '' && (!value.includes('=') || /^[^\s=]+={1,2}$/.test(value))
}

export function writeAttributes(of: Attributes): string {
  return Object.entries(of)
    .map(
      ([name, value]) =>
        `${name}=${/[\s"]/.test(value) || value === '' ? `"${value.replace(/(["\\])/g, '\\$1')}"` : value}`,
    )
    .join(' ')
}
