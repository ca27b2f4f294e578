// Questions to the server: an answer that is not good becomes an error with a sentence for the visitor.

export async function asked(address, options = {}) {
  let answer;
  try { answer = await fetch(address, options); } catch (e) {
    if (e.name === 'AbortError') throw e;
    throw new Error('The server does not answer. Is `finitewidth serve` still running?');
  }
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error ?? `The server answered ${answer.status}.`);
  return answer;
}

// The answer of a run: one event a line, as they arrive.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ''; ;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split('\n');
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

export const waiting = event => `waiting for ${event.waiting} other run${event.waiting > 1 ? 's' : ''} …`;
