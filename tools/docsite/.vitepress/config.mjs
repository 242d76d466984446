// The site of docs/, for VitePress. DOCS_VERSION is the version it describes, DOCS_VERSIONS all that are built.
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, posix, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const repository = 'https://github.com/penstock-io/penstock'
const root = resolve(dirname(fileURLToPath(import.meta.url)), '../../..')
const docs = join(root, 'docs')
const version = process.env.DOCS_VERSION || 'dev'
const versions = (process.env.DOCS_VERSIONS || version).split(' ')

const title = (file) => (readFileSync(file, 'utf8').match(/^# (.*)$/m) ?? [, file])[1].replaceAll('`', '')

// group lists the pages of a folder in the order in which docs/README.md names them.
function group(text, folder) {
  const index = readFileSync(join(docs, 'README.md'), 'utf8')
  const place = (file) => (index.indexOf(`${folder}/${file})`) + 1) || Number.MAX_SAFE_INTEGER
  const items = readdirSync(join(docs, folder))
    .filter((file) => file.endsWith('.md') && file !== 'README.md')
    .sort((a, b) => place(a) - place(b) || a.localeCompare(b))
    .map((file) => ({ text: title(join(docs, folder, file)), link: `/${folder}/${file.replace(/\.md$/, '')}` }))
  return { text, items, collapsed: folder === 'adr' }
}

// outside makes links to files that the site does not have lead to the repository.
function outside(md) {
  md.core.ruler.push('outside', (state) => {
    const page = join(docs, state.env.relativePath)
    const visit = (token) => {
      const href = token.attrGet?.('href')
      if (token.type === 'link_open' && href && !/^([a-z]+:|#|\/)/.test(href)) {
        const [path, anchor] = href.split('#')
        const file = resolve(dirname(page), path)
        const isPage = file.startsWith(docs + '/') && file.endsWith('.md')
        if (isPage && path.endsWith('README.md')) {
          token.attrSet('href', href.replace('README.md', 'index.md'))
        } else if (!isPage && existsSync(file)) {
          const kind = statSync(file).isDirectory() ? 'tree' : 'blob'
          token.attrSet('href', `${repository}/${kind}/main/${posix.normalize(relative(root, file))}${anchor ? `#${anchor}` : ''}`)
        }
      }
      token.children?.forEach(visit)
    }
    state.tokens.forEach(visit)
  })
}

export default defineConfig({
  title: 'Penstock',
  description: 'A distributed rate limiter',
  srcDir: docs,
  outDir: process.env.DOCS_OUT || join(root, 'bin/docs', version),
  cacheDir: join(root, 'bin/docs-cache'),
  base: `/${version}/`,
  rewrites: { 'README.md': 'index.md', 'adr/README.md': 'adr/index.md' },
  lastUpdated: false,
  markdown: { config: outside, anchor: { slugify } },
  vite: {
    build: { chunkSizeWarningLimit: 4096 },
    resolve: {
      alias: [
        // The pages are not below this folder, whose packages they need.
        { find: /^vue\/server-renderer$/, replacement: vue('server-renderer/index.mjs') },
        { find: /^vue$/, replacement: vue('dist/vue.runtime.esm-bundler.js') },
      ],
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [{ text: version, items: versions.map((v) => ({ text: v, link: `/../${v}/index.html`, target: '_self' })) }],
    sidebar: [
      group('Tutorials', 'tutorials'),
      group('How-to', 'how-to'),
      group('Reference', 'reference'),
      group('Explanation', 'explanation'),
      { text: 'Contributors', items: [{ text: 'Architecture', link: '/ARCHITECTURE' }] },
      group('Decisions', 'adr'),
    ],
    socialLinks: [{ icon: 'github', link: repository }],
  },
})

function vue(file) {
  return fileURLToPath(new URL(`../node_modules/vue/${file}`, import.meta.url))
}

// slugify makes the anchors that GitHub makes, so that one link works in both places.
function slugify(text) {
  return text.trim().toLowerCase().replace(/[^\p{L}\p{N}\- _]/gu, '').replaceAll(' ', '-')
}
