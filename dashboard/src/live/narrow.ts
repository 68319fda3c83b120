// Whether the page is as narrow as on a phone.
import { useEffect, useState } from 'react'

export function useNarrow(): boolean {
  const [query] = useState(() => matchMedia('(max-width: 760px)'))
  const [is, setIs] = useState(query.matches)
  useEffect(() => {
    const tell = () => setIs(query.matches)
    query.addEventListener('change', tell)
    return () => query.removeEventListener('change', tell)
  }, [query])
  return is
}
