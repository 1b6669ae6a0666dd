"""The cluster as one client sees it: metadata, connections, routing, retries."""
