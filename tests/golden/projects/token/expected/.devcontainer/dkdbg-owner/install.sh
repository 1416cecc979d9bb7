#!/bin/sh
# Written by `dkdbg init`. Runs as root while the dev container's image is built; no network.
# Most images of programs have no user but root, and then what an editor writes would be root's on the host too.
set -eu

user=$_REMOTE_USER
if ! id "$user" >/dev/null 2>&1; then
  shell=/bin/sh
  if [ -x /bin/bash ]; then shell=/bin/bash; fi
  # 1000 even where the image has somebody with it (Ubuntu 24.04): the uid matters, and the name that the editor knows.
  if command -v useradd >/dev/null 2>&1; then
    useradd --create-home --non-unique --uid 1000 --shell "$shell" "$user"
  else
    adduser -D -s "$shell" "$user"
  fi
fi
target=/usr/local/share/dkdbg-owner
mkdir -p "$target"
cp "$(dirname "$0")/start.sh" "$target/start.sh"
printf '%s\n' "$user" >"$target/user"
chmod 755 "$target" "$target/start.sh"
chmod 644 "$target/user"
