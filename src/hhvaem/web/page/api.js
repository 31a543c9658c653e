// All that the page asks of the server.

/** What the server refuses: `message` is a sentence for the reader. */
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const SILENT = "The server does not answer. Is “hhvaem serve” still running?";

async function ask(method, path, body, raw = false) {
  const wish = { method };
  if (body !== undefined) {
    wish.body = raw ? body : JSON.stringify(body);
    if (!raw) wish.headers = { "Content-Type": "application/json" };
  }
  let answer;
  try {
    answer = await fetch(path, wish);
  } catch {
    throw new Refusal(SILENT, 0);
  }
  if (answer.status === 204) return null;
  const told = await answer.json().catch(() => null);
  if (!answer.ok) {
    const otherwise = `The server answered with an error (${answer.status}); try again.`;
    throw new Refusal(told?.error ?? otherwise, answer.status);
  }
  return told;
}

const get = (path) => ask("GET", path);
const post = (path, body) => ask("POST", path, body);

let about;

export const api = {
  /** What there is; asked for once. */
  about: async () => (about ??= await get("/api/about")),
  state: () => get("/api/state"),

  upload: (file, missing) => {
    const query = new URLSearchParams({ name: file.name });
    for (const text of missing) query.append("missing", text);
    return ask("POST", `/api/tables?${query}`, file, true);
  },
  example: () => post("/api/tables/example"),
  table: (id) => get(`/api/tables/${id}`),
  removeTable: (id) => ask("DELETE", `/api/tables/${id}`),
  setKinds: (id, said) => ask("PUT", `/api/tables/${id}/kinds`, said),
  rows: (id, first, count) => get(`/api/tables/${id}/rows?first=${first}&count=${count}`),
  map: (id, bands) => get(`/api/tables/${id}/map?bands=${bands}`),

  start: (table, wish) => post(`/api/tables/${table}/jobs`, wish),
  job: (id) => get(`/api/jobs/${id}`),
  cancel: (id) => ask("DELETE", `/api/jobs/${id}`),
  report: (id) => get(`/api/jobs/${id}/report`),

  model: (id) => get(`/api/models/${id}`),
  removeModel: (id) => ask("DELETE", `/api/models/${id}`),
  filled: (id, first, count) => get(`/api/models/${id}/filled?first=${first}&count=${count}`),
  cell: (id, row, column) => get(`/api/models/${id}/cell?row=${row}&column=${column}&level=0.9`),
  column: (id, column) => get(`/api/models/${id}/column?column=${column}`),
  draws: (id) => get(`/api/models/${id}/draws`),

  newSession: (wish) => post("/api/sessions", wish),
  session: (id) => get(`/api/sessions/${id}`),
  removeSession: (id) => ask("DELETE", `/api/sessions/${id}`),
  answer: (id, told) => post(`/api/sessions/${id}/answers`, told),
  again: (id) => post(`/api/sessions/${id}/again`),
  undo: (id) => post(`/api/sessions/${id}/undo`),
  settings: (id, wish) => ask("PUT", `/api/sessions/${id}/settings`, wish),
  explain: (id, column) =>
    get(`/api/sessions/${id}/explain?column=${encodeURIComponent(column)}`),
};

/**
 * Follow a job until its end or until `signal` is aborted.
 *
 * `changed` is called with the job, `ended` with its last state, `lost` with a sentence while the
 * server is silent, or for good where it does not know the job.
 */
export function follow(id, { signal, changed, ended, lost }) {
  // Left before it began: nobody would close the connection.
  if (signal.aborted) return;
  const events = new EventSource(`/api/jobs/${id}/events`);
  events.addEventListener("job", (event) => changed(JSON.parse(event.data)));
  events.addEventListener("end", (event) => {
    // Or it would connect again.
    events.close();
    ended(JSON.parse(event.data));
  });
  events.addEventListener("error", () => {
    if (signal.aborted) return;
    if (events.readyState !== EventSource.CLOSED) lost("The server does not answer; trying again.");
    else api.job(id).then(changed, (refusal) => lost(refusal.message));
  });
  signal.addEventListener("abort", () => events.close());
}
