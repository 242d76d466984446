import { expect, test } from 'vitest'
import { snippets } from '../../src/snippets'

const text = (name: string) => snippets({ http: '192.0.2.1:1', grpc: '[::1]:2' }).find((s) => s.name === name)!.text

test('snippets have the addresses of the node', () => {
  expect(text('curl')).toContain('http://192.0.2.1:1/v1/check')
  expect(text('Gateway')).toContain('http://127.0.0.1:8080/')
  expect(text('Envoy')).toContain('{address: "::1", port_value: 2}')
  expect(text('nginx')).toContain('server 192.0.2.1:1 max_fails=0;')
  for (const s of snippets({})) expect(s.text).not.toMatch(/\{(http|gateway|admin|grpc_\w+)\}|undefined/)
})
