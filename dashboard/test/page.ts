// What the modules of the page look at when they are loaded, where there is no page.
const nothing = { getItem: () => null, setItem: () => undefined, removeItem: () => undefined }
Object.assign(globalThis, {
  document: { documentElement: { dataset: {}, lang: 'en' }, hidden: false, addEventListener: () => undefined },
  localStorage: nothing,
  sessionStorage: nothing,
  location: { hash: '' },
})
