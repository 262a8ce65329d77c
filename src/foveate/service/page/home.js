// The first view: documents are dropped, chosen, pasted, or picked from the library.

import * as api from "./api.js";
import { titleOf } from "./citation.js";
import { announce, byId, clearError, count, debounce, element, hidden, showError } from "./dom.js";

const ROWS = 20; // documents that are listed at once
const TYPING = 250; // milliseconds
const UPLOADS = "foveate.uploads"; // what sessionStorage has them under

export class Home {
  /**
   * @param {Function} onOpen Called with the id of a document.
   * @param {Function} onList Called when the list of documents is to be shown.
   */
  constructor(onOpen, onList) {
    this.onOpen = onOpen;
    this.onList = onList;
    this.listing = null;
    this.uploads = new Map(); // id → what the service said of it
    byId("choose").addEventListener("click", () => byId("file").click());
    byId("file").addEventListener("change", (event) => {
      this.#uploadFiles([...event.target.files]);
      event.target.value = ""; // so that the same file can be chosen again
    });
    byId("paste-form").addEventListener("submit", (event) => {
      event.preventDefault();
      const text = byId("paste-text").value;
      const title = byId("paste-title").value.trim();
      this.#uploadAndOpen(() => api.uploadText(text, title), "the text");
    });
    byId("library-query").addEventListener("input", debounce(() => this.list(), TYPING));
    byId("library-form").addEventListener("submit", (event) => event.preventDefault());
    byId("library-more").addEventListener("click", () => this.list(this.shown));
    this.#acceptDrops();
    this.#restoreUploads();
  }

  /** List documents of the library from a number on. */
  async list(offset = 0) {
    this.listing?.abort();
    const mine = new AbortController();
    this.listing = mine;
    const query = byId("library-query").value.trim();
    try {
      const { total, documents } = await api.listDocuments(query, offset, ROWS, mine.signal);
      const rows = documents.map((info) => this.#row(info));
      if (offset) byId("library-list").append(...rows);
      else byId("library-list").replaceChildren(...rows);
      this.shown = offset + documents.length;
      byId("library").hidden = !total && !query;
      if (total) document.body.dataset.library = ""; // which can be searched
      byId("library-more").hidden = this.shown >= total;
      byId("library-note").textContent = query ? `${count(total, "document")} found` : "";
    } catch (error) {
      if (this.listing === mine) showError(error);
    }
  }

  #listUploads() {
    const rows = [...this.uploads.values()].reverse().map((info) => {
      const row = this.#row(info);
      const remove = (event) => this.#remove(info.id, event.target);
      const title = hidden(` ${titleOf(info)}`);
      const attributes = { type: "button", class: "quiet", click: remove };
      row.append(element("button", attributes, "Remove", title));
      return row;
    });
    byId("uploads-list").replaceChildren(...rows);
    byId("uploads").hidden = !rows.length;
  }

  #row(info) {
    const facts = [
      info.num_pages ? count(info.num_pages, "page") : null,
      info.num_words ? count(info.num_words, "word") : count(info.num_sentences, "sentence"),
    ];
    const file = info.name.split(/[/\\]/).at(-1);
    if (file && info.title) facts.unshift(file);
    return element(
      "li",
      {},
      element(
        "button",
        { type: "button", class: "go", title: info.name, click: () => this.onOpen(info.id) },
        element("span", { class: "name" }, titleOf(info)),
        element("span", { class: "place" }, facts.filter(Boolean).join(" · ")),
      ),
    );
  }

  async #remove(id, button) {
    button.disabled = true;
    try {
      await api.removeDocument(id);
      this.uploads.delete(id);
      this.#saveUploads();
      this.#listUploads();
      announce("Removed.");
    } catch (error) {
      button.disabled = false;
      showError(error);
    }
  }

  /** Send a text or a file, and open it. */
  async #uploadAndOpen(send, name) {
    clearError();
    try {
      const info = await this.#upload(send, name);
      this.onOpen(info.id);
    } catch (error) {
      showError(error);
    }
  }

  /** Send files; a single one is opened, and of several, the list is shown. */
  async #uploadFiles(files) {
    if (files.length === 1) {
      const [file] = files;
      await this.#uploadAndOpen(() => api.uploadFile(file), file.name);
      return;
    }
    clearError();
    const failures = [];
    for (const file of files) {
      await this.#upload(() => api.uploadFile(file), file.name).catch((error) => {
        failures.push(error.message);
      });
    }
    this.onList();
    if (failures.length) showError(new Error(failures.join(" ")));
  }

  async #upload(send, name) {
    announce(`Reading ${name}.`);
    byId("busy-text").textContent = `Reading ${name}…`;
    byId("busy").hidden = false;
    try {
      const info = await send();
      this.uploads.set(info.id, info);
      this.#saveUploads();
      this.#listUploads();
      return info;
    } finally {
      byId("busy").hidden = true;
    }
  }

  #saveUploads() {
    sessionStorage.setItem(UPLOADS, JSON.stringify([...this.uploads.keys()]));
  }

  /** List what was opened before the page was loaded again, as far as the service still has it. */
  async #restoreUploads() {
    for (const id of JSON.parse(sessionStorage.getItem(UPLOADS) ?? "[]")) {
      const info = await api.describe(id).catch(() => null);
      if (info) this.uploads.set(id, info);
    }
    this.#listUploads();
  }

  /** Accept a file that is dropped anywhere on the page. */
  #acceptDrops() {
    const isFile = (event) => event.dataTransfer?.types.includes("Files");
    document.addEventListener("dragover", (event) => {
      if (!isFile(event)) return;
      event.preventDefault();
      document.body.classList.add("dropping");
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) document.body.classList.remove("dropping");
    });
    document.addEventListener("drop", (event) => {
      if (!isFile(event)) return;
      event.preventDefault();
      document.body.classList.remove("dropping");
      this.#uploadFiles([...event.dataTransfer.files]);
    });
  }
}
