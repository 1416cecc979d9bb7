#!/bin/sh
# Written by `dkdbg init`. Runs as root while the dev container's image is built.
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
# The editor's source control needs git, which slim images lack. Without a network all else works.
if ! command -v git >/dev/null 2>&1; then
  if command -v apt-get >/dev/null 2>&1; then
    apt-get update && apt-get install -y --no-install-recommends git && rm -rf /var/lib/apt/lists/*
  elif command -v apk >/dev/null 2>&1; then
    apk add --no-cache git
  elif command -v dnf >/dev/null 2>&1; then
    dnf install -y git
  fi || echo "dkdbg: git could not be installed: the editor has no source control in here" >&2
fi
target=/usr/local/share/dkdbg-owner
mkdir -p "$target"
cat >"$target/start.sh" <<'START'
#!/bin/sh
# Runs as root when the dev container starts, before an editor comes.
#
# The dev container tools give the remote user your uid while they build (updateRemoteUserUID), but not where you are
# root, where the engine is rootless (you are root in the container), or where the image has another user with your
# uid. There the remote user could not write to the workspace: it becomes the owner of it.
target=/usr/local/share/dkdbg-owner
pwd >"$target/workdir" # where the service runs its program: .dkdbg/up.sh starts it there

[ "$(id -u)" = 0 ] || exit 0
workspace=${DKDBG_OWNER:-$PWD}
user=$(cat "$target/user")
su "$user" -s /bin/sh -c "test -w '$workspace'" 2>/dev/null && exit 0

owner=$(stat -c %u "$workspace") && group=$(stat -c %g "$workspace") || exit 0
home=$(sed -n "s/^$user:[^:]*:[^:]*:[^:]*:[^:]*:\([^:]*\):.*/\1/p" /etc/passwd)
grep -q "^[^:]*:[^:]*:$group:" /etc/group || echo "dkdbg-owner:x:$group:" >>/etc/group
sed -i "s/^\($user:[^:]*\):[^:]*:[^:]*:/\1:$owner:$group:/" /etc/passwd
[ "$owner" = 0 ] || [ "$home" = / ] || chown -R "$owner:$group" "$home"
echo "dkdbg: $user is uid $owner now, the owner of $workspace"
START
printf '%s\n' "$user" >"$target/user"
chmod 755 "$target" "$target/start.sh"
chmod 644 "$target/user"
