"""The attach proxy: one loopback port in front of the agents of any number of targets.

- upstream: one of these targets, as the proxy sees it.
- root session: a session that only announces processes: the editor's with the proxy, and the proxy's with each agent.
- child session: the session of one process.
- router: decides for one editor and returns actions; `Editor` carries them out.
"""
