// How each role is drawn. Pages name roles; colours, widths and dark mode are decided here alone.

const TONES = {
  light: ['#1f5f8b', '#d1603d', '#3a8f6a', '#8a5a9e', '#c2932b', '#5d6b77'],
  dark: ['#6fb1dd', '#e58a69', '#6cc09a', '#b992cc', '#dcb45c', '#9aa7b1'],
};
const CELLS = {
  light: ['#a9c9de', '#efc0ab', '#abd3c0', '#d0b9da', '#e8d3a0', '#c6cdd3', '#d7e6f0', '#f8ddd1', '#d3e9de', '#e6d9ec', '#f4e8c9', '#e1e5e8'],
  dark: ['#2f5a78', '#84462f', '#2f6650', '#5e4470', '#7a6127', '#47525b', '#234254', '#5c3526', '#25493b', '#433350', '#54451f', '#343d44'],
};
const DIVERGING = {
  light: [[0, '#8fb8d6'], [.42, '#dfeaf2'], [.5, '#ffffff'], [.58, '#fae6dd'], [1, '#e69a7d']],
  dark: [[0, '#2b6f9f'], [.5, '#1a2127'], [1, '#b5512f']],
};
const SEQUENTIAL = {
  light: [[0, '#ffffff'], [.35, '#d5e5f0'], [1, '#3f7da8']],
  dark: [[0, '#1a2127'], [1, '#5fa6d6']],
};

export const dark = matchMedia('(prefers-color-scheme: dark)');
const theme = () => dark.matches ? 'dark' : 'light';
export const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const tone = i => TONES[theme()][(i ?? 0) % 6];
const cell = i => CELLS[theme()][i % 12];
const faint = (hex, a) => hex + Math.round(255 * a).toString(16).padStart(2, '0');
const classesOf = l => [...new Set(l.classes)].sort((a, b) => a - b);

// C_W becomes C with a subscript, in labels as in axis titles.
const SUBSCRIPT = /\b([A-Za-z]+_[A-Za-z0-9]+)\b/;
export const marked = text => (text ?? '').replace(new RegExp(SUBSCRIPT, 'g'), m => m.replace('_', '<sub>') + '</sub>');
export function withSubscripts(element, text) {
  text.split(SUBSCRIPT).forEach((part, i) => {
    if (i % 2 === 0) return element.append(part);
    const [letter, below] = part.split('_');
    element.append(letter, Object.assign(document.createElement('sub'), { textContent: below }));
  });
  return element;
}

const line = (l, style) => ({ x: l.x, y: l.y, mode: 'lines', name: l.name ?? '', line: style, hoverlabel: { namelength: -1 }, connectgaps: false });
const edgeOf = (l, y, style, extra = {}) => ({ x: l.x, y, mode: 'lines', line: style, hoverinfo: 'skip', name: '', ...extra });

function strung(rows, columns) {
  // Many short curves as one trace: a gap between two of them.
  const x = [], y = [];
  rows.forEach((row, i) => { const xs = Array.isArray(columns[0]) ? columns[i] : columns; row.forEach((v, j) => { x.push(xs[j]); y.push(v); }); x.push(null); y.push(null); });
  return { x, y };
}

const DRAW = {
  theory: (l, c) => [line(l, { color: c, width: 2.2 })],
  lines: (l, c) => [line(l, { color: c, width: l.width ?? 1.8, dash: l.dash ?? 'solid' })],
  measured: (l, c) => [{ x: l.x, y: l.y, name: l.name ?? '', mode: 'markers', hoverlabel: { namelength: -1 },
    marker: { color: css('--paper'), size: 6.5, line: { color: c, width: 1.6 } }, ...(l.err ? { error_y: { array: l.err, color: c, thickness: 1.2, width: 2 } } : {}) }],
  data: l => [{ x: l.x, y: l.y, name: l.name ?? '', mode: 'markers', marker: { color: css('--ink'), size: 8.5 }, hovertemplate: '(%{x:.3g}, %{y:.3g})<extra></extra>' }],
  band: (l, c) => [edgeOf(l, l.lo, { width: 0 }), edgeOf(l, l.hi, { width: 0 }, { fill: 'tonexty', fillcolor: faint(c, dark.matches ? .25 : .16) })],
  outline: (l, c) => [edgeOf(l, l.lo, { width: 1.6, dash: 'dash', color: c }), edgeOf(l, l.hi, { width: 1.6, dash: 'dash', color: c })],
  members: (l, c) => [{ ...(l.ys ? strung(l.ys, l.x) : { x: l.x, y: l.y }), mode: 'lines', name: '', line: { color: faint(c, dark.matches ? .3 : .22), width: .9 }, hoverinfo: 'skip' }],
  points: l => classesOf(l).map(k => {
    const mine = l.classes.flatMap((v, i) => v === k ? [i] : []), c = tone(k);
    return { x: mine.map(i => l.x[i]), y: mine.map(i => l.y[i]), name: l.names?.[k] ?? l.name ?? '', mode: 'markers', hovertemplate: '(%{x:.3g}, %{y:.3g})<extra>%{fullData.name}</extra>',
      marker: l.open ? { color: css('--paper'), size: l.size ?? 7, line: { color: c, width: 1.6 } } : { color: faint(c, .8), size: l.size ?? 7 } };
  }),
  bars: (l, c) => {
    const edges = l.x.length === l.y.length + 1;
    const x = edges ? l.y.map((_, i) => (l.x[i] + l.x[i + 1]) / 2) : l.x;
    const width = edges ? l.y.map((_, i) => l.x[i + 1] - l.x[i]) : undefined;
    return [{ type: 'bar', x, y: l.y, ...(width ? { width } : {}), name: l.name ?? '', marker: { color: faint(c, dark.matches ? .4 : .32), line: { color: faint(c, .8), width: .8 } }, hovertemplate: '%{x:.3g}: %{y:.3g}<extra></extra>' }];
  },
  map: l => {
    const scale = l.scale ?? 'diverging';
    const colours = scale === 'classes'
      ? { zmin: -.5, zmax: 11.5, colorscale: CELLS[theme()].flatMap((c, i) => [[i / 12, c], [(i + 1) / 12, c]]) }
      : scale === 'sequential' ? { colorscale: SEQUENTIAL[theme()] } : { zmid: l.middle ?? 0, colorscale: DIVERGING[theme()] };
    return [{ type: 'heatmap', x: l.x, y: l.y, z: l.z, zsmooth: scale === 'classes' ? false : 'best', showscale: false, ...colours,
      ...(l.hover ? { hovertemplate: l.hover + '<extra></extra>' } : { hoverinfo: 'skip' }) }];
  },
  edge: l => [{ type: 'contour', x: l.x, y: l.y, z: l.z, contours: { start: l.level ?? 0, end: l.level ?? 0, size: 1, coloring: 'none' }, line: { color: css('--ink'), width: 1.8 }, showscale: false, hoverinfo: 'skip' }],
  polygons: l => classesOf(l).map(k => {
    const mine = l.classes.flatMap((v, i) => v === k ? [i] : []);
    const corners = i => l.xs[i].map((x, j) => [x, l.ys[i][j]]).filter(([x, y]) => x !== null && y !== null);
    const rings = mine.map(i => { const p = corners(i); return p.length ? [...p, p[0]] : p; });
    return { ...strung(rings.map(r => r.map(p => p[1])), rings.map(r => r.map(p => p[0]))), mode: 'lines', fill: 'toself', fillcolor: cell(k), line: { color: css('--paper'), width: .7 }, hoverinfo: 'skip', name: '' };
  }),
  rule: () => [],
};

export const traces = layers => layers.flatMap(l => DRAW[l.role](l, tone(l.tone)).map(t => ({ showlegend: false, ...t })));

// Lines across the whole picture, with their words.
export function rules(layers, picture) {
  const shapes = [], annotations = [];
  for (const l of layers.filter(l => l.role === 'rule')) {
    const across = l.axis === 'y', c = l.tone === undefined ? css('--soft') : tone(l.tone), log = picture[l.axis]?.log;
    shapes.push({ type: 'line', ...(across ? { xref: 'paper', x0: 0, x1: 1, y0: l.at, y1: l.at } : { yref: 'paper', y0: 0, y1: 1, x0: l.at, x1: l.at }), line: { color: c, width: 1.4, dash: l.dash ?? 'dash' } });
    const at = log ? Math.log10(l.at) : l.at;
    if (l.text) annotations.push({ text: marked(l.text), showarrow: false, font: { size: 11.5, color: c }, bgcolor: faint(css('--paper'), .7), borderpad: 1,
      ...(across ? { xref: 'paper', x: 1, xanchor: 'right', y: at, yanchor: 'bottom' } : { yref: 'paper', y: 1, yanchor: 'top', x: at, xanchor: 'left', xshift: 3 }) });
  }
  for (const l of picture.labels ?? [])
    annotations.push({ text: marked(l.text), x: l.x, y: l.y, xref: 'paper', yref: 'paper', showarrow: false, font: { size: 14, color: css('--soft') }, xanchor: l.x < .33 ? 'left' : l.x > .67 ? 'right' : 'center', yanchor: l.y > .67 ? 'top' : l.y < .33 ? 'bottom' : 'middle' });
  return { shapes, annotations };
}

// Plotly's own legend takes half of a narrow picture, so the legend is text above it.
const stroke = (c, width, dash = '') => `<line x1="1" y1="6" x2="21" y2="6" stroke="${c}" stroke-width="${width}" stroke-dasharray="${dash}"/>`;
const DASHES = { dash: '5 3', dot: '2 3', dashdot: '6 3 2 3' };
const SWATCH = {
  theory: c => stroke(c, 2.4),
  lines: (c, l) => stroke(c, l.width ?? 1.8, DASHES[l.dash] ?? ''),
  outline: c => stroke(c, 1.8, '5 3'),
  band: c => `<rect x="1" y="1" width="20" height="10" rx="2" fill="${faint(c, .22)}"/>`,
  bars: c => `<rect x="3" y="5" width="5" height="7" fill="${faint(c, .45)}"/><rect x="9" y="1" width="5" height="11" fill="${faint(c, .45)}"/><rect x="15" y="7" width="5" height="5" fill="${faint(c, .45)}"/>`,
  members: c => `<path d="M1 9C7 9 8 3 21 3M1 6C9 7 12 6 21 6" stroke="${faint(c, .6)}" fill="none"/>`,
  measured: c => `<circle cx="11" cy="6" r="3.6" fill="${css('--paper')}" stroke="${c}" stroke-width="1.6"/>`,
  data: () => `<circle cx="11" cy="6" r="4" fill="${css('--ink')}"/>`,
  points: (c, l) => `<circle cx="11" cy="6" r="3.6" fill="${l.open ? css('--paper') : faint(c, .8)}" stroke="${c}" stroke-width="${l.open ? 1.6 : 0}"/>`,
  polygons: () => `<rect x="2" y="1" width="9" height="10" fill="${cell(0)}"/><rect x="11" y="1" width="9" height="10" fill="${cell(1)}"/>`,
  edge: () => stroke(css('--ink'), 1.8),
};

export function legend(element, layers) {
  const entries = [];
  for (const l of layers) {
    if (!SWATCH[l.role]) continue;
    if (l.role === 'points' && l.names) for (const k of classesOf(l)) { if (l.names[k]) entries.push([l.names[k], SWATCH.points(tone(k), l)]); }
    else if (l.name) entries.push([l.name, SWATCH[l.role](l.role === 'points' ? tone(l.classes[0]) : tone(l.tone), l)]);
  }
  element.replaceChildren(...entries.map(([name, swatch]) => {
    const span = document.createElement('span');
    span.innerHTML = `<svg width="22" height="12" aria-hidden="true">${swatch}</svg>`;
    return withSubscripts(span, name);
  }));
}
