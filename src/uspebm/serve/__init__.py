"""The scoring service: one model behind HTTP, and a page to try it on.

Bodies to rows, requests scored together, limits, tokens, metrics and reloading; the page is plain
files. May know ``report`` and below, neither ``experiments`` nor ``bench``; what it needs of
FastAPI, uvicorn and prometheus_client is an extra.
"""
