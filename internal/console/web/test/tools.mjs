// Walks the tools as an operator does: replays recent requests and a log, finds a limit, simulates and plans.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { admin, calls, logIn, looked, open, viewerToken, walk } from './browser.mjs'

// log is an access log: in each of ten minutes, client k sends k requests. Its last line is none.
const lines = []
for (let minute = 0; minute < 10; minute++)
  for (let k = 1; k <= 8; k++)
    for (let n = 0; n < k; n++)
      lines.push(
        `192.0.2.${k} - - [16/Nov/2026:09:${String(minute).padStart(2, '0')}:${String(n).padStart(2, '0')} +0000] "GET /search HTTP/1.1" 200 5 "-" "-"`,
      )
lines.push('not a request')
const log = { name: 'access.log', mimeType: 'text/plain', buffer: Buffer.from(`${lines.join('\n')}\n`) }

const tool = async (page, name, path) => {
  await page.goto(`${admin}/tools?tool=${path}`)
  await page.getByRole('link', { name, exact: true, current: 'page' }).waitFor()
}

const upload = async (page, file) => {
  await page.getByLabel('An access log').check()
  await page.getByLabel(/^Log file/).setInputFiles(file)
}

// downloaded returns the text of the file that a report is shared as.
async function downloaded(page) {
  const file = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download as a file' }).click()
  return readFile(await (await file).path(), 'utf8')
}

async function backtest() {
  const { context, page } = await open({ colorScheme: 'light' })
  await logIn(page)
  await calls(5, '/search', { 'X-User': 'tools' })
  await page.getByRole('link', { name: 'Tools', exact: true }).click()
  await page.getByRole('heading', { name: 'Tools' }).waitFor()
  await page.getByLabel('Compare the current rules with edited ones').check()
  await page.locator('.editor').waitFor()
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByText(/^Denied by both: /).waitFor()
  await page.getByText(/requests that the nodes have/).waitFor()
  await looked(page, 'tools-backtest')

  // A log that is sent, with a line that cannot be read; then a file that is no log.
  await page.getByLabel('Compare the current rules with edited ones').uncheck()
  await upload(page, log)
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByRole('alert').getByText('list it in without: fingerprint').waitFor()
  await page.getByLabel('Without').fill('fingerprint account plan')
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByText(`access.log:${lines.length}: `).waitFor()
  await page.getByText('360 requests in 361 lines').waitFor()
  assert.match(await downloaded(page), /^<!doctype html>.*<title>Backtest<\/title>.*<svg /s)
  await upload(page, { name: 'photo.png', mimeType: 'image/png', buffer: Buffer.from([0x89, 0x50, 0, 0]) })
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByRole('alert').getByText('photo.png: a binary file, not a log').waitFor()
  await page.getByLabel('Fields').fill('user')
  await page.getByRole('button', { name: 'Replay' }).click()
  await page.getByRole('alert').getByText('write attribute=field').waitFor()
  await context.close()
}

// The curve is read with the keyboard, in the dark and on a phone.
async function suggest() {
  const phone = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true }
  for (const [name, options] of Object.entries({ dark: { colorScheme: 'dark' }, phone })) {
    const { context, page } = await open(options)
    await logIn(page)
    await tool(page, 'Suggest a limit', 'suggest')
    await upload(page, log)
    await page.getByLabel('Algorithm').selectOption('sliding_window_log')
    await page.getByLabel('Keys denied at most').fill('30')
    await page.getByRole('button', { name: 'Find a limit' }).click()
    // Of eight clients, two may be denied: 6 a minute are enough for the others.
    await page.getByText('6/1m is the smallest sliding_window_log that denies at most 30 % of keys').waitFor()
    await page.getByText('limit 1: requests').waitFor()
    const slider = page.getByRole('slider', { name: /Share denied/ })
    await slider.press('ArrowRight')
    await page.getByText('limit 2: requests').waitFor()
    assert.match(await slider.getAttribute('aria-valuetext'), /^limit 2: requests [\d.]+, keys 75$/)
    assert.match(await page.locator('.report pre').innerText(), /mode: shadow/)
    assert.match(await downloaded(page), /Suggested limit/)
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
    assert(wide <= 0, `${name}: ${wide} pixels are cut off`)
    await page.locator('figure').scrollIntoViewIfNeeded()
    await looked(page, `tools-suggest-${name}`)
    await context.close()
  }
}

async function simulate() {
  const { context, page } = await open({ colorScheme: 'light' })
  await logIn(page)
  await tool(page, 'Simulate', 'simulate')
  await page.getByLabel('Requests', { exact: true }).fill('5000')
  await page.getByLabel('Limit', { exact: true }).fill('20')
  await page.getByRole('button', { name: 'Simulate' }).click()
  const exact = page.getByRole('row', { name: /^sliding_window_log 20\/1m/ })
  assert.match(await exact.innerText(), /0\.0000 %/)
  await looked(page, 'tools-simulate')
  assert.match(await downloaded(page), /<title>Simulation<\/title>/)
  await context.close()
}

// A viewer may plan, but neither replay the requests of clients nor use much of the node's memory.
async function plan() {
  const { context, page } = await open({ colorScheme: 'light' })
  await logIn(page, viewerToken)
  for (const [name, id] of [
    ['Backtest', 'backtest'],
    ['Simulate', 'simulate'],
  ]) {
    await tool(page, name, id)
    await page.getByRole('heading', { name: 'This tool is for operators' }).waitFor()
  }
  await tool(page, 'Plan', 'plan')
  await page.getByRole('button', { name: 'Plan' }).click()
  await page.getByRole('cell', { name: '579 MB/s' }).first().waitFor()
  await looked(page, 'tools-plan')
  assert.match(await downloaded(page), /<title>Capacity plan<\/title>/)
  await page.getByLabel('Peak, as a multiple').fill('0.5')
  await page.getByRole('button', { name: 'Plan' }).click()
  await page.getByRole('alert').getByText('it is at least 1').waitFor()
  await context.close()
}

await walk(backtest, suggest, simulate, plan)
