"""Open a link in the browser of the desktop. Where there is none, the printed link has to do."""

from __future__ import annotations

import webbrowser

# In a terminal: they would hide what was printed.
TEXT_BROWSERS = ("www-browser", "elinks", "links", "lynx", "w3m")


def open_browser(link: str) -> None:
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    if getattr(browser, "name", "") not in TEXT_BROWSERS:
        browser.open(link)
