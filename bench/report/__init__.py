"""From stored results to a page: `tables` in Markdown, the `chart`, and the `page` that has both."""
