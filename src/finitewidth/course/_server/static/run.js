// An experiment: one request whose answer is a stream of lines. To stop is to hang up.

import { asked, events, waiting } from './ask.js';

const $ = id => document.getElementById(id);

export class Run {
  constructor(page, link, changed) {
    Object.assign(this, { page, link, changed, hangUp: null, live: null, members: null });
    $('experiment').hidden = false;
    $('start').textContent = page.experiment.label;
    $('start').onclick = () => this.start();
    $('stop').onclick = () => this.hangUp?.abort();
  }

  // What to draw in a figure: thin lines below the theory, layers above it.
  on(name) {
    if (!this.live) return null;
    const first = name === this.page.experiment.figure;
    const members = first && this.members ? [{ role: 'members', ...this.members, tone: 1, name: 'one network each' }] : [];
    return { below: members, above: [...(first ? this.live.layers ?? [] : []), ...(this.live.figures?.[name] ?? [])] };
  }
  get numbers() { return this.live?.numbers ?? []; }

  take(piece) {
    this.live = piece;
    if (piece.members) {
      this.members ??= { x: [], y: [] };
      for (const y of piece.members.ys) { this.members.x.push(...piece.members.x, null); this.members.y.push(...y, null); }
    }
    $('progress').max = piece.of; $('progress').value = piece.done;
  }
  said(piece, tail) { return `${piece.done} of ${piece.of} ${piece.unit ?? 'networks'}${tail}`; }

  // Forget the result, because a control that it depends on has moved; true if there was one on the screen.
  forget() {
    this.hangUp?.abort(); this.recalling = false;
    const had = Boolean(this.live);
    this.live = this.members = null;
    if (had) { $('status').textContent = ''; $('progress').value = 0; }
    return had;
  }

  // The run of the default state comes with the package.
  async recall() {
    this.recalling = true;
    const piece = await (await asked(`/static/defaults/${this.page.slug}.json`)).json();
    if (!this.recalling) return;
    this.take(piece);
    $('status').textContent = this.said(piece, ', recorded; press to train them here');
    this.changed();
  }

  async start() {
    this.hangUp?.abort(); this.recalling = false;
    const mine = this.hangUp = new AbortController(), began = performance.now();
    const seconds = () => `${((performance.now() - began) / 1000).toFixed(1)} s`;
    const over = said => { if (this.hangUp === mine) { this.hangUp = null; $('start').disabled = false; $('stop').disabled = true; $('status').textContent = said; } };
    const had = this.live;
    this.live = this.members = null;
    if (had) this.changed();
    $('start').disabled = true; $('stop').disabled = false; $('progress').value = 0; $('status').textContent = 'starting …';
    try {
      const answer = await asked(`/api/${this.page.slug}/run?${this.link()}`, { method: 'POST', headers: { 'X-Lab': '1' }, signal: mine.signal });
      let drawing = false;
      for await (const event of events(answer)) {
        if (event.error) return over(event.error);
        if (event.waiting) $('status').textContent = waiting(event);
        if (event.started) $('status').textContent = 'compiling the networks …';
        if (event.alive && !this.live) $('status').textContent = `compiling the networks … ${seconds()}`;
        if (event.end && event.end !== 'done') return over(event.end);
        if (!event.piece) continue;
        this.take(event.piece);
        $('status').textContent = this.said(event.piece, `, ${seconds()}`);
        if (!drawing) { drawing = true; requestAnimationFrame(() => { drawing = false; if (this.live) this.changed(); }); }
      }
      over(this.live ? this.said(this.live, ` in ${seconds()}`) : 'no result');
    } catch (e) { over(e.name === 'AbortError' ? `stopped${this.live ? ` after ${this.live.done} ${this.live.unit ?? 'networks'}` : ''}` : e.message); }
  }
}
