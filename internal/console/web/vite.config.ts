import { defineConfig, loadEnv } from 'vite'

export default defineConfig(({ mode }) => {
  // `npm run dev` serves the sources, and sends requests for the admin API to a running penstock.
  const admin = loadEnv(mode, '.', 'PENSTOCK_').PENSTOCK_ADMIN || 'http://127.0.0.1:8091'
  return {
    // The bundle goes to internal/console/dist, from where the binary embeds it. It is never committed.
    build: { outDir: '../dist', emptyOutDir: true, assetsInlineLimit: 0, modulePreload: { polyfill: false } },
    server: {
      proxy: { '^/(v1|metrics|healthz|readyz|openapi.json)': { target: admin, changeOrigin: true } },
    },
  }
})
