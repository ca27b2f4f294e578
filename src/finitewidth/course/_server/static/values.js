// The values of the controls: their place on a slider, their text, and the link that holds them.

export const base = c => c.log2 ? 2 : c.log10 ? 10 : 0;
const counts = c => c.whole || (c.log2 && c.low >= 0 && Number.isInteger(c.step));
const log = (c, v) => c.log2 ? Math.log2(v) : Math.log10(v);

export const position = (c, v) => base(c) ? log(c, v) : v;

// The allowed value nearest to a place on the slider: the same rule as `Slider.read` on the server.
export function value(c, place) {
  const steps = Math.round((Math.min(c.high, Math.max(c.low, place)) - c.low) / c.step);
  const at = Math.min(c.low + steps * c.step, c.high), v = base(c) ? base(c) ** at : at;
  return counts(c) ? Math.round(v) : Number(v.toPrecision(6));
}

export function text(c, v) {
  if (c.kind === 'choice') return c.options.find(([o]) => o === v)?.[1] ?? v;
  if (counts(c)) return v >= 1e5 && base(c) === 10 ? v.toExponential(0).replace('e+', 'e') : String(v);
  if (base(c)) return v < 1e-3 || v >= 1e5 ? v.toExponential(1).replace('e+', 'e') : String(Number(v.toPrecision(3)));
  return v.toFixed(c.step < .01 ? 3 : c.step < .1 ? 2 : 1);
}

export const defaults = controls => Object.fromEntries(controls.map(c => [c.name, c.default]));

// Only what differs from the default stands in the link.
export const query = (controls, state) =>
  new URLSearchParams(controls.filter(c => state[c.name] !== c.default).map(c => [c.name, state[c.name]]));

export function fromLink(controls) {
  const given = new URLSearchParams(location.search), state = defaults(controls);
  for (const c of controls) {
    if (!given.has(c.name)) continue;
    const said = given.get(c.name);
    if (c.kind === 'choice') { if (c.options.some(([o]) => o === said)) state[c.name] = said; continue; }
    const number = Number(said);
    if (said.trim() && Number.isFinite(number)) state[c.name] = value(c, base(c) && number <= 0 ? c.low : position(c, number));
  }
  return state;
}
