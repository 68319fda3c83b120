"""The live view `pyoco-client top`. `board` has what it shows, `feed` reads it, `app` draws it (Textual)."""
