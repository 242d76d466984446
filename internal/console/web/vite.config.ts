import { defineConfig } from 'vite'

// The bundle is embedded in the binary: internal/console/dist. It is built, never committed.
// `npm run dev` serves the sources and asks a running penstock (PENSTOCK_ADMIN, by default on 8091) for the rest.
export default defineConfig({
  build: { outDir: '../dist', emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: {
    proxy: {
      '^/(v1|metrics|healthz|readyz|openapi.json)': { target: 'http://127.0.0.1:8091', changeOrigin: true },
    },
  },
})
