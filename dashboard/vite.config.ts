// Builds into the Python package. Addresses are relative, so that it also works below a proxy's path.
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

export default defineConfig({
  base: './',
  plugins: [react()],
  build: {
    outDir: '../src/pyoco_server/http_api/dashboard',
    emptyOutDir: true,
    assetsDir: 'static',
    assetsInlineLimit: 0,
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The dashboard and the API reference; the latter is mostly Swagger UI.
    rollupOptions: { input: ['index.html', 'docs.html'] },
    chunkSizeWarningLimit: 2000,
  },
  // The limit is for tests that hang: on a busy machine others take a hundred times as long as alone.
  test: { include: ['test/**/*.test.ts'], setupFiles: ['test/page.ts'], reporters: ['dot'], testTimeout: 120_000 },
})
