"""Foveate in other frameworks; each module needs its framework.

| module | framework | extra |
|---|---|---|
| `sentence_transformers` | code that expects a `SentenceTransformer` | none |
| `langchain` | LangChain | `langchain` |
| `llama_index` | LlamaIndex | `llama-index` |
| `haystack` | Haystack | `haystack` |
"""
