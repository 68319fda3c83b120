// The pages with a graph: one file, because most of it is what draws graphs.

export { default as Flow } from './flows/flow'
export { default as Compare } from './run/compare/compare'
export { default as Run } from './run/run'
