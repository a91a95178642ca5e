"""The local web page: paste a log, drop files, open a folder named at the start; see the report in the browser.

Needs the extra ``web``. ``app`` answers requests, ``guard`` turns away whom it must, ``received`` stores what is sent,
``jobs`` runs each diagnosis in a process of its own (``worker``) within its limits and forgets it again.
"""
