// Edits of a rules document. They change only what they must, so comments and layout stay.
import { yamlLanguage } from '@codemirror/lang-yaml'

type Node = ReturnType<typeof yamlLanguage.parser.parse>['topNode']

// Rule is a rule as the form makes it, with its fields in the order in which they are written.
export interface Rule {
  name: string
  match?: { method?: string; path?: string }
  key: string[]
  limits: ({ rate: string; algorithm: string } | { concurrent: number; ttl: string })[]
  mode?: string
}

// addRule returns the document with the rule at the end of its list of rules, written in the style of that list: as
// YAML in block style, or as JSON. It returns undefined if the document has no place for it, because it is not a
// mapping or its rules are not a list.
export function addRule(document: string, rule: Rule): string | undefined {
  const root = yamlLanguage.parser.parse(document).topNode.getChild('Document')
  if (!root) return append(document, document.length, ['rules:', ...block(rule, '  ')])
  const blocks = root.getChild('BlockMapping')
  if (blocks) return addToBlockMapping(document, blocks, rule)
  const flow = root.getChild('FlowMapping')
  if (flow) return addToFlowMapping(document, flow, rule)
  return undefined
}

function addToBlockMapping(document: string, mapping: Node, rule: Rule): string | undefined {
  const pair = findPair(document, mapping, 'rules')
  if (!pair) return append(document, mapping.to, ['rules:', ...block(rule, '  ')])
  const colon = pair.getChild(':')
  const list = pairValue(pair)
  if (!colon || (list && !isList(list) && !isNull(document, list))) return undefined
  const last = list?.getChildren('Item').at(-1)
  if (last && list?.name === 'FlowSequence') return splice(document, last.to, last.to, `, ${JSON.stringify(rule)}`)
  if (last && list) return append(document, list.to, block(rule, indentAt(document, list.from)))
  // The list is empty: [], null or nothing at all.
  const emptied = splice(document, colon.to, list?.to ?? colon.to, '')
  return append(emptied, colon.to, block(rule, '  '))
}

function addToFlowMapping(document: string, mapping: Node, rule: Rule): string | undefined {
  const json = JSON.stringify(rule)
  const pair = findPair(document, mapping, 'rules')
  if (pair) {
    const list = pairValue(pair)
    if (!list || (!isList(list) && !isNull(document, list))) return undefined
    const last = list.getChildren('Item').at(-1)
    return last ? splice(document, last.to, last.to, `, ${json}`) : splice(document, list.from, list.to, `[${json}]`)
  }
  const last = mapping.getChildren('Pair').at(-1)
  return last
    ? splice(document, last.to, last.to, `, "rules": [${json}]`)
    : splice(document, mapping.from + 1, mapping.from + 1, `"rules": [${json}]`)
}

function findPair(document: string, mapping: Node, name: string): Node | undefined {
  return mapping.getChildren('Pair').find((pair) => {
    const key = pair.getChild('Key')
    return key && document.slice(key.from, key.to).replace(/^(["'])(.*)\1$/, '$2') === name
  })
}

// pairValue returns the value of a pair without its anchor or tag; null if it has none.
function pairValue(pair: Node): Node | null {
  let value = pair.getChild(':')?.nextSibling ?? null
  while (value && ['Comment', 'Anchored', 'Tagged'].includes(value.name)) {
    value = value.name === 'Comment' ? value.nextSibling : value.lastChild
  }
  return value
}

const isList = (node: Node) => node.name === 'BlockSequence' || node.name === 'FlowSequence'

const isNull = (document: string, node: Node) => /^(~|null)$/i.test(document.slice(node.from, node.to))

const splice = (text: string, from: number, to: number, insert: string) => text.slice(0, from) + insert + text.slice(to)

// append inserts lines below the line at a position. The last line of the result ends with a line break.
function append(text: string, at: number, lines: string[]): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n'
  const end = text.indexOf('\n', at)
  const above = end < 0 ? text + (text === '' || text.endsWith('\n') ? '' : eol) : text.slice(0, end + 1)
  return above + lines.map((line) => line + eol).join('') + text.slice(above.length)
}

const indentAt = (text: string, at: number) => text.slice(text.lastIndexOf('\n', at - 1) + 1, at)

// block writes a rule as an item of a list in block style, a field on each line.
function block(rule: Rule, indent: string): string[] {
  const fields = Object.entries(rule).filter(([, value]) => value !== undefined)
  return fields.map(([name, value], i) => `${indent}${i === 0 ? '- ' : '  '}${name}: ${inline(value)}`)
}

// inline writes a value in flow style.
function inline(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inline).join(', ')}]`
  if (typeof value === 'string') return scalar(value)
  if (typeof value !== 'object' || value === null) return String(value)
  const fields = Object.entries(value).filter(([, v]) => v !== undefined)
  return `{${fields.map(([name, v]) => `${name}: ${inline(v)}`).join(', ')}}`
}

// scalar writes a string, with quotes if YAML could read it as anything else.
function scalar(text: string): string {
  const plain = /^([A-Za-z_/][\w./-]*|\d+\/\w+)$/.test(text)
  const reserved = /^(true|false|null|yes|no|on|off|y|n)$/i.test(text)
  return plain && !reserved ? text : JSON.stringify(text)
}
