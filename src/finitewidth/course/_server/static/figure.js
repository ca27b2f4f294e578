// One picture on the page: axes, layers, and the handles that a visitor can move in it.
/* global Plotly */

import { css, legend, marked, rules, traces } from './layers.js';
import { position, text, value } from './values.js';

const NOWHERE = ['polygons', 'points', 'map'];

function axis(a = {}) {
  const range = a.range && (a.log ? a.range.map(v => Math.log10(v)) : a.range);
  return {
    title: { text: marked(a.label), standoff: 6, font: { size: 12.5 } }, type: a.log ? 'log' : 'linear',
    ...(range ? { range, autorange: false } : { autorange: true, rangemode: a.log || a.zero === false ? 'normal' : 'tozero' }),
    ...(a.ticks ? { tickmode: 'array', tickvals: a.ticks.map(t => t[0]), ticktext: a.ticks.map(t => marked(String(t[1]))) } : { nticks: 7 }),
    ...(a.log ? { exponentformat: 'power', minexponent: 3 } : {}),
    gridcolor: css('--grid'), zeroline: false, linecolor: css('--line'), tickfont: { size: 11.5 }, automargin: true, fixedrange: true,
  };
}

export class FigureView {
  constructor(description, controls, move) {
    this.name = description.name; this.depends = description.depends; this.controls = controls; this.move = move; this.picture = null; this.handles = [];
    this.element = document.createElement('figure');
    this.element.className = description.tall ? 'tall' : '';
    this.element.innerHTML = '<figcaption><b></b><span class="legend"></span></figcaption><div class="plot" role="img"></div>';
    [this.legend, this.plot] = [this.element.querySelector('.legend'), this.element.querySelector('.plot')];
    this.element.querySelector('b').textContent = description.title;
    this.plot.id = 'plot-' + this.name;
    new ResizeObserver(() => this.show()).observe(this.plot);
    this.plot.addEventListener('pointerdown', e => this.press(e));
  }

  // `extra`: what networks did, on top of the theory but below the data.
  show(extra = this.extra, state = this.state) {
    this.extra = extra; this.state = state;
    if (!this.picture || !this.plot.clientWidth) return;
    const on = layer => layer.role === 'data', filled = layer => layer.role === 'bars', all = this.picture.layers, more = extra?.above ?? [];
    const layers = [...(extra?.below ?? []), ...more.filter(filled), ...all.filter(l => !on(l)), ...more.filter(l => !filled(l)), ...all.filter(on)];
    legend(this.legend, layers);  // before the size is read: it takes room
    const { shapes, annotations } = rules(layers, this.picture), closest = layers.some(l => NOWHERE.includes(l.role)) || this.picture.equal;
    const layout = {
      width: this.plot.clientWidth, height: this.plot.clientHeight, margin: { l: 44, r: 8, t: 8, b: 38 }, shapes, annotations,
      xaxis: axis(this.picture.x), yaxis: { ...axis(this.picture.y), ...(this.picture.equal ? { scaleanchor: 'x', constrain: 'domain' } : {}) },
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', font: { family: 'system-ui, sans-serif', color: css('--soft'), size: 12 },
      showlegend: false, hovermode: this.picture.pick ? false : closest ? 'closest' : 'x', dragmode: false, bargap: 0, barmode: 'overlay', uirevision: this.name,
    };
    if (this.picture.equal) layout.xaxis.constrain = 'domain';
    Plotly.react(this.plot, traces(layers), layout, { displayModeBar: false, scrollZoom: false });
    this.plot.setAttribute('aria-label', this.picture.alt ?? '');
    this.plot.classList.remove('stale');
    this.mark(state);
  }

  get pairs() {
    const pick = this.picture?.pick;
    return !pick ? [] : Array.isArray(pick[0]) ? pick : [pick];
  }

  // A handle is an element above the picture: moving it must not draw the picture again.
  mark(state) {
    this.state = state;
    const layout = this.plot._fullLayout;
    if (!layout || !state) return;
    while (this.handles.length < this.pairs.length) this.handles.push(this.handle(this.handles.length));
    this.pairs.forEach(([px, py], i) => {
      const dot = this.handles[i], said = [px, py].map(n => `${n} ${text(this.control(n), state[n])}`).join(', ');
      dot.style.left = layout.xaxis._offset + layout.xaxis.d2p(state[px]) + 'px';
      dot.style.top = layout.yaxis._offset + layout.yaxis.d2p(state[py]) + 'px';
      dot.setAttribute('aria-label', `${said}: arrow keys move it`);
    });
  }

  control(name) { return this.controls.find(c => c.name === name); }

  handle(i) {
    const dot = Object.assign(document.createElement('button'), { className: 'here', type: 'button' });
    dot.addEventListener('keydown', e => {
      const way = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowDown: [1, -1], ArrowUp: [1, 1] }[e.key];
      if (!way) return;
      e.preventDefault();
      const name = this.pairs[i][way[0]], c = this.control(name);
      this.move({ [name]: value(c, position(c, this.state[name]) + way[1] * c.step) });
    });
    return this.plot.appendChild(dot);
  }

  // A press takes the nearest handle to the pointer; it follows until the pointer is lifted.
  press(e) {
    if (!this.pairs.length || e.button) return;
    const { xaxis, yaxis } = this.plot._fullLayout, box = this.plot.getBoundingClientRect();
    const far = ([px, py]) => Math.hypot(xaxis._offset + xaxis.d2p(this.state[px]) - e.clientX + box.left, yaxis._offset + yaxis.d2p(this.state[py]) - e.clientY + box.top);
    const [px, py] = this.pairs.reduce((a, b) => far(a) <= far(b) ? a : b);
    const at = (n, v) => { const c = this.control(n); return value(c, position(c, v)); };
    const follow = e => this.move({ [px]: at(px, xaxis.p2d(e.clientX - box.left - xaxis._offset)), [py]: at(py, yaxis.p2d(e.clientY - box.top - yaxis._offset)) });
    const release = () => { removeEventListener('pointermove', follow); removeEventListener('pointerup', release); removeEventListener('pointercancel', release); };
    addEventListener('pointermove', follow); addEventListener('pointerup', release); addEventListener('pointercancel', release);
    follow(e);
  }
}
