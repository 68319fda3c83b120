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
    chunkSizeWarningLimit: 900,
  },
  test: { include: ['test/**/*.test.ts'], setupFiles: ['test/page.ts'], reporters: ['dot'] },
})
