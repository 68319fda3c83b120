"""uvicorn, with limits on connections and on what a client sends, and answers in one write."""
