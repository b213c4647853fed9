"""Search over a corpus of passages: in this process, or by a server that answers over HTTP."""
