// A visitor's own table: it goes to the training process, and a report comes back under a name for ten minutes.

import { asked, events, waiting } from './ask.js';

const $ = id => document.getElementById(id);
const LARGEST = 2 ** 20;

export function offerUpload(page, link) {
  $('upload').hidden = false;
  $('upload-title').textContent = page.upload;
  $('send').onclick = async () => {
    const file = $('table').files[0], said = text => { $('answer').replaceChildren(text); };
    if (!file) return said('Choose a file first.');
    if (file.size > LARGEST) return said('The table is larger than 1 MB.');
    $('send').disabled = true; said('reading the table …');
    try {
      const q = link();
      q.set('target', $('target').value);
      const answer = await asked(`/api/${page.slug}/report?${q}`, { method: 'POST', headers: { 'X-Lab': '1', 'Content-Type': 'text/csv' }, body: file });
      for await (const event of events(answer)) {
        if (event.error) said(event.error);
        if (event.waiting) said(waiting(event));
        if (event.alive) said(`computing … ${event.alive} s`);
        if (event.report) said(Object.assign(document.createElement('a'), { href: event.report, target: '_blank', rel: 'noopener', textContent: `Open the report: ${event.summary}` }));
      }
    } catch (e) { said(e.message); }
    $('send').disabled = false;
  };
}
