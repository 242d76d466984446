import { expect, test } from 'vitest'
import { addRule, type Rule } from '../../src/document'

const rule: Rule = { name: 'new', key: ['ip'], limits: [{ rate: '5/1m', algorithm: 'token_bucket' }] }
const json = '{"name":"new","key":["ip"],"limits":[{"rate":"5/1m","algorithm":"token_bucket"}]}'
const item = (indent: string) =>
  [
    `${indent}- name: new`,
    `${indent}  key: [ip]`,
    `${indent}  limits: [{rate: 5/1m, algorithm: token_bucket}]`,
    '',
  ].join('\n')

const inBlock: [what: string, before: string, after: string][] = [
  ['an empty document', '', `rules:\n${item('  ')}`],
  ['only comments', '# mine\n', `# mine\nrules:\n${item('  ')}`],
  ['no rules', 'attributes:\n  a: {header: A}\n', `attributes:\n  a: {header: A}\nrules:\n${item('  ')}`],
  ['no line break at the end', 'rules:\n  - name: a', `rules:\n  - name: a\n${item('  ')}`],
  ['rules without a value', 'rules: # none yet\nlists: 1\n', `rules: # none yet\n${item('  ')}lists: 1\n`],
  ['an empty list', 'rules: [] # none yet\n', `rules: # none yet\n${item('  ')}`],
  ['an empty list on its own line', 'rules:\n  []\n', `rules:\n${item('  ')}`],
  ['null', 'rules: ~\nlists: 1\n', `rules:\n${item('  ')}lists: 1\n`],
  ['the indentation of the list: none', 'rules:\n- name: a\n', `rules:\n- name: a\n${item('')}`],
  ['the indentation of the list: four', 'rules:\n    - name: a\n', `rules:\n    - name: a\n${item('    ')}`],
  ['a quoted key', '"rules":\n  - name: a\n', `"rules":\n  - name: a\n${item('  ')}`],
  ['an anchor', 'rules: &all\n  - name: a\n', `rules: &all\n  - name: a\n${item('  ')}`],
  ['a comment on the last line', 'rules:\n  - name: a # old\n', `rules:\n  - name: a # old\n${item('  ')}`],
  ['an end of the document', '---\nrules:\n  - name: a\n...\n', `---\nrules:\n  - name: a\n${item('  ')}...\n`],
  [
    'the comment of what follows stays with it',
    'rules:\n  - name: a\n\n# Never limited.\nallow: []\n',
    `rules:\n  - name: a\n${item('  ')}\n# Never limited.\nallow: []\n`,
  ],
  [
    'a text that looks like a key',
    'rules:\n  - name: a\n    when: |\n      x ==\n        "rules:"\nlists: 1\n',
    `rules:\n  - name: a\n    when: |\n      x ==\n        "rules:"\n${item('  ')}lists: 1\n`,
  ],
  [
    'a key of another mapping',
    'other:\n  rules:\n    - name: a\nrules:\n  - name: b\n',
    `other:\n  rules:\n    - name: a\nrules:\n  - name: b\n${item('  ')}`,
  ],
]

test.each(inBlock)('addRule in block style: %s', (_, before, after) => {
  expect(addRule(before, rule)).toBe(after)
})

test('addRule keeps CRLF', () => {
  expect(addRule('rules:\r\n  - name: a\r\n', rule)).toBe(
    `rules:\r\n  - name: a\r\n${item('  ').replaceAll('\n', '\r\n')}`,
  )
})

const inFlow: [before: string, after: string][] = [
  ['rules: [{name: a}] # one\n', `rules: [{name: a}, ${json}] # one\n`],
  ['rules: [\n  {name: a}, # old\n]\n', `rules: [\n  {name: a}, ${json}, # old\n]\n`],
  ['{"rules": [{"name": "a"}]}', `{"rules": [{"name": "a"}, ${json}]}`],
  ['{"rules": []}', `{"rules": [${json}]}`],
  ['{"rules": null, "lists": 1}', `{"rules": [${json}], "lists": 1}`],
  ['{"lists": 1}', `{"lists": 1, "rules": [${json}]}`],
  ['{}', `{"rules": [${json}]}`],
]

test.each(inFlow)('addRule in flow style: %s', (before, after) => {
  expect(addRule(before, rule)).toBe(after)
})

test('JSON stays JSON', () => {
  for (const before of ['{"rules": [{"name": "a"}]}', '{"rules": []}', '{"rules": null}', '{"lists": 1}', '{}']) {
    expect(JSON.parse(addRule(before, rule) ?? '').rules.at(-1)).toEqual(rule)
  }
})

test.each(['rules: 3\n', 'rules:\n  a: b\n', 'rules: *all\n', 'just text\n', '- a\n- b\n', '{"rules": {}}'])(
  'addRule has no place in %j',
  (document) => expect(addRule(document, rule)).toBeUndefined(),
)

test('texts that YAML would read as something else have quotes', () => {
  const texts = [
    '/orders',
    'GET',
    '/{rest...}',
    'true',
    'No',
    '12',
    '1.5',
    '-',
    '---',
    '#x',
    'a: b',
    'it\'s "so"',
    '',
    '*',
    'a,b',
  ]
  const lines = addRule('', { ...rule, key: texts })?.split('\n')
  expect(lines?.[2]).toBe(
    String.raw`    key: [/orders, GET, "/{rest...}", "true", "No", "12", "1.5", "-", "---", "#x", "a: b", "it's \"so\"", "", "*", "a,b"]`,
  )
})
