// Walks what the console shows of several nodes on one Redis: the Go test starts north, south and west, and gives west
// rules of its own. PENSTOCK_OTHER is the process of south, and PENSTOCK_REDIS the address of Redis: both end on the way.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { admin, calls, logIn, looked, open, until, walk } from './browser.mjs'

// row finds a node by its element: on a phone rows are cards, and Chromium no longer calls them rows.
const row = (page, name) =>
  page
    .getByRole('region', { name: 'Nodes' })
    .locator('tbody tr')
    .filter({ hasText: new RegExp(`^${name}`) })

async function knows(page) {
  await row(page, 'north').getByText('this one').waitFor()
  await row(page, 'south').getByText('✓ exact').waitFor()
  await row(page, 'west').getByText('≠ different').waitFor()
}

// fits finds out whether the page is as wide as what it is shown on.
async function fits(page) {
  const [wide, shown] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth])
  assert(wide <= shown + 1, `the page is ${wide} wide, and ${shown} are shown`)
}

async function light() {
  const { context, page } = await open({ colorScheme: 'light' })
  const asked = []
  page.on('request', (r) => asked.push(new URL(r.url()).pathname))
  await logIn(page)
  await knows(page)
  await page.getByText('live', { exact: true }).waitFor()
  await calls(20, '/')
  await page.locator('.chart canvas').waitFor()
  await looked(page, 'nodes')
  assert(
    asked.includes('/v1/overview') && !asked.includes('/v1/stats') && !asked.includes('/v1/status'),
    `the overview asks: ${asked}`,
  )

  // Nobody looks: the stream is closed. Somebody does: there is another.
  const streams = () => asked.filter((path) => path === '/v1/overview').length
  const hide = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden })
      document.dispatchEvent(new Event('visibilitychange'))
    }, hidden)
  await hide(true)
  await page.getByText('paused', { exact: true }).waitFor()
  const before = streams()
  await hide(false)
  await page.getByText('live', { exact: true }).waitFor()
  await until('there is another stream', () => streams() > before)

  await page.getByRole('link', { name: 'System' }).click()
  await knows(page)
  await looked(page, 'nodes-system')
  await context.close()
}

// The numbers are those of all nodes, or of one. Hours are from the history, and dragging over the chart zooms.
async function everyNode() {
  const { context, page } = await open()
  await logIn(page)
  await knows(page)
  const filter = page.getByLabel('Node', { exact: true })
  await filter.selectOption('south')
  await page.getByText('No requests yet').waitFor() // all went to north
  await filter.selectOption('north')
  await page.getByText('20 total').waitFor()
  await filter.selectOption('')
  await page.getByText('20 total').waitFor()
  await page.getByRole('region', { name: 'Targets' }).getByText('script p99').waitFor()
  await page.getByRole('region', { name: 'Targets' }).getByText('< 5 ms').waitFor()

  await page.getByRole('button', { name: '24h' }).click()
  const history = page.getByRole('region', { name: 'History' })
  await history.getByText(/20 requests/).waitFor()
  await history.getByText(/events in this period/).click()
  await history.getByText('Node started').first().waitFor()
  await looked(page, 'history')
  const box = await history.locator('.chart .u-over').boundingBox()
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * 0.9, box.y + box.height / 2, { steps: 5 })
  await page.mouse.up()
  await page.waitForURL(/from=.*to=/)
  await history.getByRole('button', { name: 'Back to live' }).click()
  await page.getByRole('button', { name: '15m', pressed: true }).waitFor()
  await context.close()
}

async function dark() {
  const { context, page } = await open({ colorScheme: 'dark' })
  await logIn(page)
  await knows(page)
  await row(page, 'west').scrollIntoViewIfNeeded()
  await looked(page, 'nodes-dark')
  await context.close()
}

async function phone() {
  const { context, page } = await open({ viewport: { width: 390, height: 800 }, isMobile: true, hasTouch: true })
  await logIn(page)
  await knows(page)
  await row(page, 'west').scrollIntoViewIfNeeded()
  await fits(page)
  await looked(page, 'nodes-phone')
  await context.close()
}

// A node ends, and is gone without anybody asking.
async function ends() {
  const { context, page } = await open()
  await logIn(page)
  await knows(page)
  process.kill(Number(process.env.PENSTOCK_OTHER), 'SIGTERM')
  await row(page, 'south').waitFor({ state: 'detached' })
  await page.goto(`${admin}/system`)
  await row(page, 'west').waitFor()
  assert.equal(await row(page, 'south').count(), 0)

  // So does the session, and with it the stream.
  await page.getByRole('link', { name: 'Overview' }).click()
  await page.getByText('live', { exact: true }).waitFor()
  assert((await context.request.delete(`${admin}/v1/session`)).ok())
  await page.getByLabel('Admin token').waitFor()
  await context.close()
}

// Without Redis a node says so, and what it last heard.
async function cutOff() {
  const { context, page } = await open({ colorScheme: 'dark' })
  await logIn(page)
  await row(page, 'west').waitFor()
  const redis = connect(Number(process.env.PENSTOCK_REDIS.split(':').at(-1)), '127.0.0.1', () =>
    redis.end('SHUTDOWN NOSAVE\r\n'),
  )
  await row(page, 'north').getByText('▲ degraded').waitFor()
  await page.getByText('decides without the shared state').waitFor()
  await page.getByText('redis ✗').waitFor()
  await row(page, 'west').getByText('○ not heard').waitFor()
  await row(page, 'west').scrollIntoViewIfNeeded()
  await looked(page, 'nodes-lost')
  await context.close()
}

await walk(light, everyNode, dark, phone, ends, cutOff)
