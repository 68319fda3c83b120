// The flow as a picture: who waits for whom, and how each stands at the moment that is looked at.
import dagre from '@dagrejs/dagre'
import {
  Controls,
  type Edge,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
  type ReactFlowInstance,
} from '@xyflow/react'
import '@xyflow/react/dist/base.css'
import { type JSX, memo, useMemo, useRef } from 'react'
import type { GraphNode, RunGraph } from '../../api/types'
import { Shape, toneOf } from '../../parts/status'
import { t, word } from '../../text/text'

const WIDTH = 184
const HEIGHT = 44
const DRAWN_MAX = 500
// Smaller than this nothing can be read: a larger graph is looked at in parts.
const ZOOM_MIN = 0.7
const AROUND = 24
const TALL_MIN = 124
const TALL_MAX = 330

type Shown = Node<{ name: string; status: string; chosen: boolean; takenOver: boolean }, 'task'>

const KINDS = { task: memo(Task) }

type Props = {
  graph: RunGraph | null
  over: boolean
  standing: Map<string, string>
  takenOver: ReadonlySet<string>
  selected: string | null
  select: (task: string | null) => void
}

export function Graph(props: Props): JSX.Element {
  const { graph, standing, takenOver, selected } = props
  const box = useRef<HTMLDivElement>(null)
  const laid = useMemo(() => (graph && graph.nodes.length <= DRAWN_MAX ? layout(graph) : null), [graph])
  const nodes = useMemo(
    () =>
      (laid?.nodes ?? []).map(
        (node): Shown => ({
          ...node,
          data: {
            name: node.id,
            status: standing.get(node.id) ?? 'IDLE',
            chosen: node.id === selected,
            takenOver: takenOver.has(node.id),
          },
        }),
      ),
    [laid, standing, takenOver, selected],
  )
  const edges = useMemo(
    () =>
      (laid?.edges ?? []).map(
        (edge): Edge => ({
          ...edge,
          className: `${edge.className ?? ''} from-${toneOf(standing.get(edge.source) ?? 'IDLE')}`,
        }),
      ),
    [laid, standing],
  )
  if (!graph || graph.nodes.length === 0)
    return <p className="faint-text graph-none">{t(props.over ? 'run.noTasksEver' : 'run.noTasks')}</p>
  if (laid === null) return <p className="faint-text graph-none">{t('run.tooMany', { n: graph.nodes.length })}</p>
  return (
    <>
      {!graph.ordered && <p className="faint-text">{t('run.unordered')}</p>}
      <div
        className="graph"
        ref={box}
        style={{ height: Math.min(TALL_MAX, Math.max(TALL_MIN, laid.height + 2 * AROUND)) }}
      >
        <ReactFlow
          key={graph.nodes.length}
          nodes={nodes}
          edges={edges}
          nodeTypes={KINDS}
          onInit={(flow) => place(flow, box.current, laid, standing)}
          fitViewOptions={{ maxZoom: 1, padding: 0.06 }}
          minZoom={0.1}
          maxZoom={1.6}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          onlyRenderVisibleElements={nodes.length > 80}
          zoomOnScroll={false}
          preventScrolling={false}
          onNodeClick={(_, node) => props.select(node.id === selected ? null : node.id)}
          proOptions={{ hideAttribution: true }}
        >
          <Controls showInteractive={false} position="bottom-right" />
        </ReactFlow>
      </div>
    </>
  )
}

/** A button, so that it is chosen by the keyboard too: its click is the click on the node around it. */
function Task({ data }: NodeProps<Shown>): JSX.Element {
  return (
    <button
      type="button"
      title={data.name}
      aria-pressed={data.chosen}
      className={`node tone-${toneOf(data.status)}${data.chosen ? ' chosen' : ''}`}
      data-status={data.status}
      data-node={data.name}
    >
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Shape status={data.status} />
      <span className="node-text">
        <b>{data.name}</b>
        <small>{data.takenOver ? t('run.takenOver') : word(`status.${data.status}`, data.status)}</small>
      </span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </button>
  )
}

type Laid = {
  nodes: Pick<Shown, 'id' | 'position' | 'type' | 'width' | 'height' | 'data'>[]
  edges: Edge[]
  width: number
  height: number
}

const ASTIR: ReadonlySet<string> = new Set(['RUNNING', 'WAITING', 'FAILED'])

/** All of it where it fits and can be read; else around the first task that is astir, or the first of all. */
function place(
  flow: ReactFlowInstance<Shown>,
  box: HTMLDivElement | null,
  laid: Laid,
  standing: Map<string, string>,
): void {
  if (box === null) return
  const [width, height] = [box.clientWidth, box.clientHeight]
  const fits = Math.min((width - 2 * AROUND) / laid.width, (height - 2 * AROUND) / laid.height)
  const zoom = Math.min(1, Math.max(ZOOM_MIN, fits))
  const focus = laid.nodes.find((node) => ASTIR.has(standing.get(node.id) ?? '')) ?? laid.nodes[0]
  const at = (room: number, size: number, middle: number) => {
    const free = room - size * zoom
    return free >= 0 ? free / 2 : Math.max(free - AROUND, Math.min(AROUND, room / 2 - middle * zoom))
  }
  const { x, y } = focus?.position ?? { x: 0, y: 0 }
  void flow.setViewport({ x: at(width, laid.width, x + WIDTH / 2), y: at(height, laid.height, y + HEIGHT / 2), zoom })
}

function layout(graph: RunGraph): Laid {
  const drawing = emptyDrawing()
  drawing.setGraph({ rankdir: 'LR', nodesep: 14, ranksep: 44 })
  drawing.setDefaultEdgeLabel(() => ({}))
  const edges = edgesOf(graph)
  for (const node of graph.nodes) drawing.setNode(node.id, { width: WIDTH, height: HEIGHT })
  for (const edge of edges) drawing.setEdge(edge.source, edge.target)
  dagre.layout(drawing)
  inOrder(graph, drawing)
  const nodes = graph.nodes.map((node) => {
    const { x, y } = drawing.node(node.id)
    return {
      id: node.id,
      type: 'task' as const,
      position: { x: x - WIDTH / 2, y: y - HEIGHT / 2 },
      width: WIDTH,
      height: HEIGHT,
      data: { name: node.id, status: 'IDLE', chosen: false, takenOver: false },
    }
  })
  const { width = WIDTH, height = HEIGHT } = drawing.graph()
  return { nodes, edges, width, height }
}

type Place = { x: number; y: number }
type Drawing = ReturnType<typeof emptyDrawing>

function emptyDrawing() {
  return new dagre.graphlib.Graph()
}

/** The layout chooses any order within a column. Tasks are read from top to bottom as the timeline lists them. */
function inOrder(graph: RunGraph, drawing: Drawing): void {
  const columns = new Map<number, Place[]>()
  const alike = new Map<string, Place[]>()
  const heirs = new Map<string, string[]>()
  for (const node of graph.nodes)
    for (const before of node.after) heirs.set(before, [...(heirs.get(before) ?? []), node.id])
  for (const node of graph.nodes) {
    const place: Place = drawing.node(node.id)
    const neighbours = JSON.stringify([place.x, node.after.toSorted(), heirs.get(node.id)?.toSorted()])
    columns.set(place.x, [...(columns.get(place.x) ?? []), place])
    alike.set(neighbours, [...(alike.get(neighbours) ?? []), place])
  }
  const turns = (places: Place[]) =>
    places.slice(1).reduce((sum, { y }, i) => sum + Math.sign(y - (places[i]?.y ?? 0)), 0)
  // Mirrored, it is the same drawing. Tasks with the same neighbours can be exchanged.
  if ([...columns.values()].reduce((sum, places) => sum + turns(places), 0) < 0) {
    const { height = HEIGHT } = drawing.graph()
    for (const places of columns.values()) for (const place of places) place.y = height - place.y
  }
  for (const places of alike.values()) {
    const heights = places.map(({ y }) => y).sort((a, b) => a - b)
    places.forEach((place, index) => {
      place.y = heights[index] ?? place.y
    })
  }
}

/** Where it is not known who waits for whom, tasks hang together in their order, by broken lines. */
export function edgesOf(graph: RunGraph): Edge[] {
  const known = new Set(graph.nodes.map((node) => node.id))
  if (!graph.ordered) {
    return graph.nodes.slice(1).map((node, index) => edge((graph.nodes[index] as GraphNode).id, node.id, 'order'))
  }
  return graph.nodes.flatMap((node) =>
    node.after.filter((before) => known.has(before)).map((before) => edge(before, node.id, `join-${node.join}`)),
  )
}

function edge(source: string, target: string, className: string): Edge {
  return { id: `${source} ${target}`, source, target, className, focusable: false }
}
