// Requests to the service. Its addresses are relative, so it may stand under any prefix.

const TOKEN = "foveate.token";

class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.name = "ApiError";
    this.status = status;
  }
}

let askForToken = async () => null;
let pendingToken = null;

/** Set the function that asks the user for a token; it gives null if the user declines. */
export function onTokenNeeded(ask) {
  askForToken = ask;
}

/** Ask once, however many requests wait for the token. */
function newToken(wasRefused) {
  pendingToken ??= askForToken(wasRefused).finally(() => {
    pendingToken = null;
  });
  return pendingToken;
}

async function send(method, path, { json, form, signal } = {}) {
  const headers = {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  if (json) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(new URL(path, document.baseURI), {
      method,
      headers,
      body: json ? JSON.stringify(json) : form,
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(
      "The service does not answer. Check the connection, and that “foveate serve” is running.",
      0,
    );
  }
  if (response.status === 401) {
    // Another request may have got a new token since this one was sent.
    const current = sessionStorage.getItem(TOKEN);
    const renewed = current !== token ? current : await newToken(Boolean(token));
    if (renewed) {
      sessionStorage.setItem(TOKEN, renewed);
      return send(method, path, { json, form, signal });
    }
  }
  if (!response.ok) throw new ApiError(await reason(response), response.status);
  return response;
}

/** Find the sentence in which the service says what is wrong. */
async function reason(response) {
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    // Not JSON: a proxy answered, or nobody.
  }
  const told = body?.error?.message ?? body?.message ?? body?.detail;
  if (typeof told === "string" && told) return told;
  if (Array.isArray(told) && told[0]?.msg) return `The request was refused: ${told[0].msg}.`;
  if (response.status === 401) return "This service needs a token.";
  if (response.status === 413) return "This is larger than the service allows.";
  if (response.status === 503) return "The service is busy. Try again in a moment.";
  if (response.status === 504) return "This took longer than the service allows.";
  return `The service could not do this (status ${response.status}).`;
}

const get = async (path, signal) => (await send("GET", path, { signal })).json();
const post = async (path, json, signal) => (await send("POST", path, { json, signal })).json();
const address = (id, rest = "") => `documents/${encodeURIComponent(id)}${rest}`;

export async function uploadFile(file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return (await send("POST", "documents", { form })).json();
}

export const uploadText = (text, title) => post("documents", title ? { text, title } : { text });

export const health = () => get("healthz");

export const listDocuments = (query, offset, limit, signal) =>
  get(`documents?${new URLSearchParams({ query, offset, limit })}`, signal);

export const removeDocument = (id) => send("DELETE", address(id));
export const describe = (id) => get(address(id));
export const outline = (id) => get(address(id, "/outline"));
export const pages = (id) => get(address(id, "/pages"));

export const sentences = (id, start, end) =>
  get(address(id, `/sentences?start=${start}&end=${end}`));

export async function pageImage(id, number, scale, signal) {
  const path = address(id, `/pages/${number}.png?scale=${scale}`);
  const response = await send("GET", path, { signal });
  return response.blob();
}

export const pageText = (id, number, signal) => get(address(id, `/pages/${number}/text`), signal);

export const search = (request, signal) => post("search", request, signal);
export const ask = (request, signal) => post("ask", request, signal);
export const summarize = (request, signal) => post("summarize", request, signal);
export const keywords = (request, signal) => post("keywords", request, signal);

/** Yield what a language model writes, line by line, see the service's description of `write`. */
export async function* write(request, signal) {
  const { body } = await send("POST", "write", { json: request, signal });
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines.map((one) => JSON.parse(one))) {
      if (line.detail) throw new ApiError(line.detail, 200);
      yield line;
    }
  }
}
