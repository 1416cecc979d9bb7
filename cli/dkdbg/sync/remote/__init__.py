"""The target as one stream shows it: start the receiver there, send operations, know what has arrived."""
