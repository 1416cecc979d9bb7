"""The host's side of sync.

It selects, indexes and compares files, and plans the operations on the target (docs/adr/0010). Its words:

- receiver: the program at the remote end of a stream.
- ledger: the receiver's record of the entries that sync has put on the target. It holds them: only they may be deleted.
- stamp: text that changes when a local file's content may have changed (size, mtime, ctime, inode).
- adopt: record a remote entry that equals the local one as put there by sync.
- probe: a file with a random name in the remote root; found in the local root too, it shows that both are one folder.
- kept/: the receiver's folder for entries that were in the way and that sync has not put there.
"""
