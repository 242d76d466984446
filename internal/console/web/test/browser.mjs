// What walks of the console have in common: a real browser, whose pages must not fail, ask elsewhere, or keep anybody out.
// The Go test (e2e/console_test.go) has the servers and gives: PENSTOCK_ADMIN and PENSTOCK_GATEWAY (URLs), PENSTOCK_TOKEN,
// PENSTOCK_TEST_VIEWER_TOKEN, PENSTOCK_TEST_CHROMIUM (the browser), and PENSTOCK_TEST_SHOTS (a directory for screenshots, if any are wanted).
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

export const admin = process.env.PENSTOCK_ADMIN
export const gateway = process.env.PENSTOCK_GATEWAY
export const token = process.env.PENSTOCK_TOKEN
export const viewerToken = process.env.PENSTOCK_TEST_VIEWER_TOKEN
const shots = process.env.PENSTOCK_TEST_SHOTS
const patience = 60_000 // for anything: a busy machine is no fault of the console
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const browser = await chromium.launch({
  executablePath: process.env.PENSTOCK_TEST_CHROMIUM,
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'],
})
const troubles = []

export async function open(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...options })
  context.setDefaultTimeout(patience)
  const page = await context.newPage()
  page.on('pageerror', (e) => troubles.push(`error in the page: ${e.message}`))
  page.on('dialog', (d) => {
    if (d.type() === 'confirm' || d.type() === 'beforeunload') return d.accept()
    troubles.push(`a dialog: ${d.message()}`)
    return d.dismiss()
  })
  page.on('console', (m) => {
    if (/Content Security Policy/i.test(m.text())) troubles.push(m.text())
  })
  page.on('request', (r) => {
    if (
      !r
        .url()
        .replace(/^blob:/, '')
        .startsWith(admin) &&
      !r.url().startsWith('data:')
    )
      troubles.push(`a request to ${r.url()}`)
  })
  return { context, page }
}

export async function logIn(page, as = token) {
  await page.goto(admin)
  await page.getByLabel('Admin token').fill(as)
  await page.getByRole('button', { name: 'Log in' }).click()
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
}

// looked takes a picture, and asks axe what would keep people out.
export async function looked(page, name) {
  if (shots) await page.screenshot({ path: join(shots, `${name}.png`), fullPage: false })
  if (!(await page.evaluate(() => Boolean(window.axe)))) await page.evaluate(axe) // screens share a window
  const found = await audit(page)
  for (const v of found.violations)
    troubles.push(`${name}: ${v.id}: ${v.help}: ${v.nodes.map((n) => n.target).join(' ')}`)
}

// audit runs axe on a page that keeps updating. axe yields while it works, and throws when an element it remembers has been
// removed by the time it reports; the audit is then run again on the page as it is.
async function audit(page, attempts = 10) {
  try {
    return await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }))
  } catch (e) {
    if (attempts === 1 || !/nthChild|detached/.test(e.message)) throw e
    return audit(page, attempts - 1)
  }
}

export const call = (path, headers = {}) => fetch(gateway + path, { headers })

export async function calls(n, path, headers) {
  const statuses = []
  for (let i = 0; i < n; i++) statuses.push((await call(path, headers)).status)
  return statuses
}

// until waits for a condition that traffic brings about.
export async function until(what, condition) {
  const end = Date.now() + patience
  while (!(await condition())) {
    assert(Date.now() < end, `timed out waiting for: ${what}`)
    await new Promise((r) => setTimeout(r, 200))
  }
}

// walk does one part after the other. Nothing may have gone wrong on the way.
export async function walk(...parts) {
  try {
    for (const part of parts) {
      console.log(part.name)
      await part()
    }
  } catch (err) {
    for (const page of browser.contexts().flatMap((context) => context.pages()))
      if (shots) await page.screenshot({ path: join(shots, 'failed.png') })
    throw err
  } finally {
    await browser.close()
  }
  assert.deepEqual(troubles, [])
  console.log('ok')
}
