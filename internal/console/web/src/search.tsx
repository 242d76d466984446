import type { RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { get, mayChange } from './api'
import { visibleScreens } from './app'
import { isBare, readAttributes } from './attributes'
import { query } from './request'

// useHotkey moves the focus to an input when Ctrl+K is pressed, or / while nothing is being typed.
function useHotkey(box: RefObject<HTMLInputElement | null>) {
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      const typing = e.target instanceof HTMLElement && e.target.closest('input, textarea, [contenteditable], .editor')
      if (((e.ctrlKey || e.metaKey) && e.key === 'k') || (e.key === '/' && !typing)) {
        e.preventDefault()
        box.current?.focus()
      }
    }
    window.addEventListener('keydown', press)
    return () => window.removeEventListener('keydown', press)
  }, [])
}

// Search goes to a screen, a rule, or a client given as name=value. Ctrl+K or / starts it.
export function Search() {
  const { route } = useLocation()
  const [text, setText] = useState('')
  const [rules, setRules] = useState<string[]>([])
  const [at, setAt] = useState(0)
  const [open, setOpen] = useState(false)
  const box = useRef<HTMLInputElement>(null)
  useHotkey(box)
  const focus = () => {
    setOpen(true)
    get('/v1/rules').then(
      (set) => setRules(set.rules.map((r) => r.name)),
      () => setRules([]),
    )
  }
  const found = results(text, rules)
  const go = (i: number) => {
    const to = found[i]
    if (!to) return
    setText('')
    setOpen(false)
    box.current?.blur()
    route(to.path)
  }
  const press = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') setAt(Math.min(at + 1, found.length - 1))
    else if (e.key === 'ArrowUp') setAt(Math.max(at - 1, 0))
    else if (e.key === 'Enter') go(at)
    else if (e.key === 'Escape') box.current?.blur()
    else return
    e.preventDefault()
  }
  return (
    <div class="search">
      <input
        ref={box}
        type="text"
        list={undefined}
        role="combobox"
        aria-label="Search screens, rules and clients"
        aria-expanded={open && found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        placeholder="Search, or 198.51.100.7   Ctrl K"
        value={text}
        onInput={(e) => {
          setText(e.currentTarget.value)
          setAt(0)
        }}
        onFocus={focus}
        onBlur={() => window.setTimeout(() => setOpen(false), 150)}
        onKeyDown={press}
      />
      {open && text !== '' && <Found list={found} at={at} go={go} />}
    </div>
  )
}

interface Target {
  kind: string
  name: string
  path: string
}

function Found({ list, at, go }: { list: Target[]; at: number; go: (i: number) => void }) {
  return (
    <ul id="found" role="listbox">
      {list.map((f, i) => (
        <li key={f.path} role="option" aria-selected={i === at} onMouseDown={() => go(i)}>
          <span class="quiet">{f.kind}</span> {f.name}
        </li>
      ))}
      {list.length === 0 && <li class="quiet">Nothing is called that.</li>}
    </ul>
  )
}

function results(text: string, rules: string[]): Target[] {
  const wanted = text.trim().toLowerCase()
  const found: Target[] = []
  if (wanted === '') return found
  if (wanted.includes('=') && readAttributes(text).wrong === '') {
    if (mayChange()) found.push({ kind: 'Client', name: text.trim(), path: `/keys${query({ q: text.trim() })}` })
    found.push({ kind: 'Explain', name: text.trim(), path: `/explain${query({ q: text.trim() })}` })
  }
  for (const s of visibleScreens()) if (s.name.toLowerCase().includes(wanted)) found.push({ kind: 'Screen', ...s })
  for (const r of rules)
    if (r.toLowerCase().includes(wanted)) found.push({ kind: 'Rule', name: r, path: `/rules${query({ rule: r })}` })
  if (isBare(text) && mayChange())
    found.push({ kind: 'Find', name: text.trim(), path: `/keys${query({ q: text.trim() })}` })
  return found.slice(0, 12)
}
