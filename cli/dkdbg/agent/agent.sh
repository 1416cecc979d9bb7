#!/bin/sh
# Find a Python here, 3.8 or newer, and run the dkdbg agent with it:  sh agent.pyz launch -- python train.py
#
# In agent.pyz a zip follows this script (unzip -l shows it): the agent, and debugpy without its binaries. It is unpacked
# once into a private folder, DKDBG_RUNTIME_DIR or /tmp/dkdbg-UID.
# DKDBG_PYTHON names a Python if none is found here. The agent runs isolated (-I -S) and writes no .pyc (-B): it imports
# nothing from the image's site-packages, the working directory or PYTHONPATH, and the program imports nothing of it.
case $0 in
*.pyz) main=$0 ;;
-c) main=-c ;; # `sh -c THIS -c CODE`: any Python here, for the code that brings the file
*/*) main=${0%/*}/__main__.py ;; # in a checkout of dkdbg
*) main=__main__.py ;;
esac

# The health check: it needs no Python while the agent lives and its port listens (state 0A), and makes no connection.
# Otherwise the agent, started below, reports the reason.
runtime=${DKDBG_RUNTIME_DIR:-/nowhere} ready=$runtime/ready
is_ready() {
  [ -r "$ready" ] && read -r pid port since _ <"$ready" && [ -d "/proc/$pid" ] || return 1
  for table in /proc/net/tcp /proc/net/tcp6; do
    [ -r "$table" ] || continue
    while read -r _ local _ state _; do
      [ "$state" = 0A ] || continue
      case $local in *:"$port") return 0 ;; esac
    done <"$table"
  done
  return 1
}
is_new() { # for less than 1 s; uptimes in hundredths of a second. Only digits may reach the arithmetic.
  read -r now _ </proc/uptime && now=${now%.*}${now#*.} || return 1
  case $since$now in '' | *[!0-9]*) return 1 ;; esac
  [ "${#since}" -lt 15 ] && [ "$((now - since))" -lt 100 ]
} 2>/dev/null
if [ "${1:-}" = health ]; then
  # `health --wait`, for an engine that repeats the check at once (start_interval is an error with Docker before 25 and
  # with Podman). The first success is reported at once, later ones at most every other second; a failure after 20 s, or
  # after 2 s if the check has succeeded before. If the folder cannot be created, the agent uses another, which only
  # Python finds.
  if [ "${2:-}" = --wait ] && is_ready; then
    is_new || sleep 2
    set -- health
  elif [ "${2:-}" = --wait ] && { [ -e "$runtime" ] || [ -w "${runtime%/*}" ]; }; then
    waited=0
    until is_ready; do
      [ "$waited" -lt 200 ] || break
      [ "$waited" -lt 20 ] || [ ! -e "$ready" ] || break
      if sleep 0.1 2>/dev/null; then waited=$((waited + 1)); elif sleep 1; then waited=$((waited + 10)); else break; fi
    done
    set -- health
  fi
  is_ready && exit 0
fi

# Every user who can write to the workspace can change a Python there, and this script may run as root, before the agent
# becomes the workspace's owner. Such a Python is used only if no other user than root and this one can have changed it; root
# does not use another user's Python even from PATH. DKDBG_PYTHON is the user's own choice.
foreign=
is_ours() { # FOLDER/bin/python: a link counts as its target; pyvenv.cfg names Python's standard library
  me=$(id -u 2>/dev/null || echo 0) bin=${1%/*}
  for part in "${bin%/*}" "$bin" "$1" "$bin/pyvenv.cfg" "${bin%/*}/pyvenv.cfg"; do
    [ -e "$part" ] || continue
    set -- $(LC_ALL=C ls -ldnL "$part" 2>/dev/null) # mode, links, uid, gid
    case ${3:-} in 0 | "$me") ;; *) return 1 ;; esac
    case $1 in
      ????????w*) return 1 ;;
      ?????w*) [ "$4" = "$3" ] || [ "$4" = 0 ] || return 1 ;; # a user's private group has the user's number
    esac
  done
}
is_allowed() { # NAME as listed below, PATH as found
  case $1 in
    "$DKDBG_PYTHON" | "$brought") return 0 ;;
    ./* | /workspace/* | /app/*) ;;
    *)
      [ -O / ] || return 0
      case $2 in
        "$PWD"/* | "${DKDBG_OWNER:-$PWD}"/* | [!/]*) ;;
        *) return 0 ;;
      esac
      ;;
  esac
  is_ours "$2" && return 0
  foreign="$foreign $2"
  return 1
}

# The Python that received the file, see state/kept.py: PATH may have no other one.
brought=
case ${0##*/} in agent-????????????????????????????????.pyz) brought=$(readlink "${0%.pyz}.python" 2>/dev/null) ;; esac

# The command's own Python, for a debugpy that fits it. Root runs no other user's before the agent has dropped privileges.
named=
for word; do
  [ "$named" != -- ] || { named=$word && break; }
  [ "$word" != -- ] || named=--
done
case ${named##*/} in python | python3 | python3.[0-9]*) ;; *) named= ;; esac
case $named in */*) [ ! -O / ] || is_ours "$named" || named= ;; esac
first=$named # tried once, only as CPython: PyPy cannot be debugged, so the agent of a PyPy program runs on another Python

tried=
for python in "$DKDBG_PYTHON" "$brought" "$named" python3 python "$VIRTUAL_ENV/bin/python" ./.venv/bin/python ./venv/bin/python \
  /opt/venv/bin/python /venv/bin/python /app/.venv/bin/python /app/venv/bin/python /workspace/.venv/bin/python \
  /opt/conda/bin/python /opt/miniconda3/bin/python /usr/local/bin/python3 /usr/bin/python3 /opt/bitnami/python/bin/python \
  python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 /usr/libexec/platform-python; do
  case $python in '' | /bin/python) continue ;; esac
  found=$(command -v "$python" 2>/dev/null) || continue
  is_allowed "$python" "$found" || continue
  unfit='sys.version_info < (3, 8)'
  [ "$python" != "$first" ] || { first= && unfit="$unfit or sys.implementation.name != 'cpython'"; }
  if "$python" -I -S -c "import sys; sys.exit($unfit)" >/dev/null 2>&1; then
    exec "$python" -I -S -B "$main" "$@"
  fi
  tried="$tried $python"
done
if [ -n "$foreign" ]; then
  echo "dkdbg: not running a Python that users other than root and uid $me can change:$foreign; set DKDBG_PYTHON to it if you trust them" >&2
fi
if [ -n "$tried" ]; then
  echo "dkdbg: no Python 3.8 or newer here (tried:$tried); set DKDBG_PYTHON" >&2
else
  echo "dkdbg: no Python found here; set DKDBG_PYTHON to its path" >&2
fi
exit 127
