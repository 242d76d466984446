import type { UserConfig } from 'vite'
import { afterEach, expect, test, vi } from 'vitest'
import config from '../../vite.config'

afterEach(() => vi.unstubAllEnvs())

const target = async () => {
  const made: UserConfig = await config({ command: 'serve', mode: 'development' })
  return Object.values(made.server?.proxy ?? {}).map((p) => (typeof p === 'string' ? p : p.target))
}

test('the development server asks the node in PENSTOCK_ADMIN', async () => {
  vi.stubEnv('PENSTOCK_ADMIN', 'http://127.0.0.1:9999')
  expect(await target()).toEqual(['http://127.0.0.1:9999'])
})

test('without it, the default port', async () => {
  vi.stubEnv('PENSTOCK_ADMIN', '')
  expect(await target()).toEqual(['http://127.0.0.1:8091'])
})
