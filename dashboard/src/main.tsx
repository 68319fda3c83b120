// Begins: theme and keys, the one stream, then the page.
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createRoot } from 'react-dom/client'
import { repeatMs } from './api/client'
import { askOtherTabs, onCredential } from './api/session'
import { App } from './app'
import { startKeys } from './live/keys'
import { startNews } from './live/news'
import { startForgetting } from './live/reread'
import { startTheme } from './live/theme'
import './style/all.css'
import { language } from './text/text'

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      // A refusal stays one; what was not answered is asked again, when its pause is over.
      retry: (_, error) => repeatMs(error) !== null,
      retryDelay: (_, error) => repeatMs(error) ?? 0,
      // Without a network it fails as it does without a gateway, and says so.
      networkMode: 'always',
      refetchOnWindowFocus: false,
      staleTime: 1000,
    },
  },
})

// What was read as somebody else is not shown to whoever comes next.
onCredential(() => void queries.resetQueries())

document.documentElement.lang = language()
startTheme()
startKeys()
askOtherTabs()
startNews()
startForgetting(queries)

createRoot(document.getElementById('app') as HTMLElement).render(
  <QueryClientProvider client={queries}>
    <App />
  </QueryClientProvider>,
)
