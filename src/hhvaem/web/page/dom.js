// Elements, made without markup: texts only ever become text nodes.

const SVG = "http://www.w3.org/2000/svg";

// Signs that turn the direction of what follows: a name could look like another.
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;

/** Make an element: properties are attributes, `on...` are listeners, children are nodes or texts. */
export function h(tag, props = {}, ...children) {
  return made(document.createElement(tag), props, children);
}

/** Make an element of an SVG picture. */
export function svg(tag, props = {}, ...children) {
  return made(document.createElementNS(SVG, tag), props, children);
}

function made(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "value" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...shown(children));
  // A select takes its value when it has its options.
  if (props.value !== undefined && props.value !== null) node.value = props.value;
  return node;
}

function shown(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "string" ? child.replace(TURNS, "_") : child));
}

/** Put other children into an element. */
export function put(node, ...children) {
  node.replaceChildren(...shown(children));
  return node;
}

let last = 0;

/** Give an id that nothing else on the page has. */
export function freshId(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** Draw into a box, and again when its width changes: text in a picture keeps its size. */
export function drawnToFit(box, draw) {
  let before = 0;
  const look = () => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== before) {
      before = width;
      put(box, draw(width));
    }
  };
  new ResizeObserver(look).observe(box);
  return box;
}
