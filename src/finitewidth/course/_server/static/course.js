// The front page: the pages of the course in order, one card each.

import { asked } from './ask.js';
import { withSubscripts } from './layers.js';

const made = (tag, fields = {}) => Object.assign(document.createElement(tag), fields);

async function build() {
  const course = await (await asked('/api/pages')).json();
  document.getElementById('course').replaceChildren(...course.map((page, i) => {
    const a = made('a', { href: '/' + page.slug, className: 'card' }), li = made('li');
    a.append(made('small', { textContent: i + 1 }), made('b', { textContent: page.title }), withSubscripts(made('span'), page.idea));
    li.append(a);
    return li;
  }));
  document.body.dataset.ready = '1';
}
build().catch(e => { const p = document.getElementById('error'); p.hidden = false; p.textContent = e.message; });
