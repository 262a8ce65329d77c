"""Foveate in other frameworks; each module needs its framework.

| module | framework | extra |
|---|---|---|
| `sentence_transformers` | sentence-transformers | `sentence-transformers` |
| `langchain` | LangChain | `langchain` |
| `llama_index` | LlamaIndex | `llama-index` |
| `haystack` | Haystack | `haystack` |
"""
