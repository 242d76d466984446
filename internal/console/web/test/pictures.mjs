// Compares screenshots with those in pictures.json, coarsely: a grid of 24 × 16 cells of brightness. Fonts, dates and
// numbers hardly change it; a screen that is empty, unstyled, in the wrong theme or overlaid does.
// PENSTOCK_TEST_UPDATE=1 writes the file.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'

const file = new URL('pictures.json', import.meta.url)
const update = process.env.PENSTOCK_TEST_UPDATE
const kept = JSON.parse(readFileSync(file, 'utf8'))

// Mean differences of brightness, of 255, that are not noticed: of the whole picture, and of one row of cells.
const most = { picture: 10, row: 45 }

const brightness = (page, jpeg) =>
  page.evaluate(async (jpeg) => {
    const image = new Image()
    image.src = `data:image/jpeg;base64,${jpeg}`
    await image.decode()
    const [columns, rows] = [24, 16]
    const canvas = Object.assign(document.createElement('canvas'), { width: image.width, height: image.height })
    const drawing = canvas.getContext('2d', { willReadFrequently: true })
    drawing.drawImage(image, 0, 0)
    const [w, h] = [Math.floor(image.width / columns), Math.floor(image.height / rows)]
    const { data } = drawing.getImageData(0, 0, image.width, image.height)
    const cell = (x, y) => {
      let sum = 0
      for (let row = y * h; row < (y + 1) * h; row++)
        for (let i = 4 * (row * image.width + x * w), end = i + 4 * w; i < end; i += 4)
          sum += 0.3 * data[i] + 0.59 * data[i + 1] + 0.11 * data[i + 2]
      return Math.round(sum / (w * h))
    }
    return Array.from({ length: rows }, (_, y) => Array.from({ length: columns }, (_, x) => cell(x, y)))
  }, jpeg)

const mean = (numbers) => numbers.reduce((a, b) => a + b, 0) / numbers.length

// alike checks that a page looks like its picture.
export async function alike(page, name) {
  const now = await brightness(page, (await page.screenshot({ type: 'jpeg', quality: 80 })).toString('base64'))
  const text = now.map((row) => row.map((n) => n.toString(16).padStart(2, '0')).join(''))
  if (update) {
    kept[name] = text
    writeFileSync(file, `${JSON.stringify(kept, Object.keys(kept).sort(), 2)}\n`)
    return
  }
  assert(kept[name], `there is no picture of ${name}: run with PENSTOCK_TEST_UPDATE=1`)
  const rows = kept[name].map((row, y) =>
    mean(row.match(/../g).map((hex, x) => Math.abs(Number.parseInt(hex, 16) - now[y][x]))),
  )
  assert(
    mean(rows) <= most.picture && Math.max(...rows) <= most.row,
    `${name} does not look as it did: rows differ by ${rows.map(Math.round)}; now ${JSON.stringify(text)}`,
  )
}
