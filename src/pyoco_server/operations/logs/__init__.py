"""What runs print: `pages`, `file`, `search` (in the threads of `search_pool`), `follower` (a reader of the
shared `views`), tokens of positions (`cursors`), lines about events (`notice_lines`), logs that are made from
events alone (`unwritten`), and lines that the server adds (`notices`).
"""
