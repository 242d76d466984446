import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { yaml } from '@codemirror/lang-yaml'
import { HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language'
import { linter, lintGutter } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { useEffect, useRef } from 'preact/hooks'
import type { RuleProblem } from '../types'
import { diagnostics } from './diagnostics'

const colors = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: 'var(--accent)' },
  { tag: [tags.string, tags.content], color: 'var(--ink)' },
  { tag: tags.comment, color: 'var(--quiet)', fontStyle: 'italic' },
  { tag: [tags.separator, tags.punctuation, tags.squareBracket, tags.brace], color: 'var(--quiet)' },
])

const look = EditorView.theme({
  '&': {
    color: 'var(--ink)',
    backgroundColor: 'var(--card)',
    fontSize: '13px',
    border: '1px solid var(--line)',
    borderRadius: '6px',
    minHeight: '320px',
    maxHeight: '70vh',
  },
  '&.cm-focused': { outline: '2px solid var(--accent)' },
  '.cm-scroller': { fontFamily: 'var(--mono)', overflow: 'auto' },
  '.cm-gutters': { backgroundColor: 'var(--card)', color: 'var(--quiet)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'var(--wash)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { backgroundColor: 'var(--selected) !important' },
  '.cm-tooltip': { backgroundColor: 'var(--card)', color: 'var(--ink)', border: '1px solid var(--line)' },
})

// A Source is an initial text. Another Source replaces what was typed; the same one never does.
export interface Source {
  text: string
}

interface Props {
  source: Source
  readOnly: boolean
  line?: number
  check: (text: string) => Promise<RuleProblem[]>
  changed: (text: string) => void
}

// Yaml edits rules, and asks the server to check them. It is in a shadow root: there its styles are style sheets,
// which the content security policy of this page allows, and not elements, which it does not.
export function Yaml({ source, readOnly, line, check, changed }: Props) {
  const box = useRef<HTMLDivElement>(null)
  const view = useRef<EditorView>(undefined)
  const told = useRef({ check, changed })
  told.current = { check, changed }
  useEffect(() => {
    if (!box.current) return
    const root = box.current.shadowRoot ?? box.current.attachShadow({ mode: 'open' })
    const made = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: source.text,
        extensions: [
          lineNumbers(),
          history(),
          drawSelection(),
          indentOnInput(),
          highlightActiveLine(),
          yaml(),
          syntaxHighlighting(colors),
          look,
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          EditorState.readOnly.of(readOnly),
          EditorState.tabSize.of(2),
          EditorView.contentAttributes.of({ 'aria-label': 'Rules document' }),
          lintGutter(),
          linter(async (v) => diagnostics(v.state.doc, await told.current.check(v.state.doc.toString())), {
            delay: 400,
          }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) told.current.changed(u.state.doc.toString())
          }),
        ],
      }),
    })
    made.scrollDOM.tabIndex = 0 // so that a long document can be scrolled with the keyboard alone
    view.current = made
    return () => made.destroy()
  }, [readOnly])
  useEffect(() => {
    const v = view.current
    if (v && v.state.doc.toString() !== source.text)
      v.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: source.text } })
  }, [source])
  useEffect(() => {
    const v = view.current
    if (!v || !line || line > v.state.doc.lines) return
    const at = v.state.doc.line(line).from
    v.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: 'start', yMargin: 40 }) })
  }, [line])
  return <div class="editor" ref={box} />
}
