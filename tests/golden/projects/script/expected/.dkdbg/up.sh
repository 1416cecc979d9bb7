#!/bin/sh
# Written by `dkdbg init`: what F5 runs first. It ends when an attach will work, or fails with the reason.
# With `restart` it starts the program anew, with `stop` it ends it, with `down` it removes its container too.
# On the host it starts the debug service; inside the dev container it starts the program under the agent.
set -eu
cd -P "$(dirname "$0")/.."  # a folder is one project, whatever links lead to it
what=${1:-up}
case $what in
  up | restart | stop | down) ;;
  *)
    echo "dkdbg: .dkdbg/up.sh takes restart, stop, down or nothing" >&2
    exit 2
    ;;
esac

# The port that the editor attaches to, as launch.json says; nothing where somebody has built that entry in another way.
attaches_to=$(tr -d '\n' <.vscode/launch.json 2>/dev/null |
  sed -n 's/.*"name": *"dkdbg: attach"[^{}]*"connect": *{[^{}]*"port": *\([0-9]\{1,5\}\).*/\1/p')
# The one that is published: `dkdbg up` writes another one here and there when this one is taken.
port=$(sed -n "s/^DKDBG_PORT=[\"']\{0,1\}\([0-9]\{1,5\}\).*/\1/p" .env 2>/dev/null | tail -n 1)
port=${port:-5678}

if [ -e /opt/dkdbg/agent.pyz ] && [ "${DKDBG_MAPPINGS+set}" = set ]; then
  [ "$what" != down ] || what=stop # the editor removes the dev container
  if sh /opt/dkdbg/agent.pyz health >/dev/null 2>&1; then
    [ "$what" = up ] || exec sh /opt/dkdbg/agent.pyz "$what"
    exit 0
  fi
  [ "$what" = stop ] && exit 0
  cd "$(cat /usr/local/share/dkdbg-owner/workdir 2>/dev/null || pwd)"
  # A session of its own: the editor closes this terminal when the task has ended, and SIGHUP would end the program.
  session=nohup
  if command -v setsid >/dev/null 2>&1; then session=setsid; fi
  log=$(mktemp "${TMPDIR:-/tmp}/dkdbg-output.XXXXXX")
  printf '%s\n' "dkdbg: starting app-debug in this container; its output goes to $log"
  "$session" sh /opt/dkdbg/agent.pyz launch --host 127.0.0.1 --port "${attaches_to:-$port}" -- python train.py --epochs 3 >"$log" 2>&1 </dev/null &
  agent=$!
  while ! sh /opt/dkdbg/agent.pyz health >/dev/null 2>&1; do
    kill -0 "$agent" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.2
  done
  exit 0
fi

listens() { cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -q ":$(printf '%04X' "$1") [0-9A-F:]* 0A "; }
# An engine of another machine sees nothing of this one, and compose builds for Podman by an image that has to be pulled:
# dkdbg copies the files there, or builds by podman.
why= remote=
case ${DOCKER_HOST:-$(docker context inspect --format '{{.Endpoints.docker.Host}}' 2>/dev/null)} in
  ssh://* | tcp://* | http://* | https://*) why='is on another machine, which does not see this folder' remote=1 ;;
  *) case $(docker version --format '{{range .Server.Components}}{{.Name}} {{end}}' 2>/dev/null) in
      *Podman*) why='is Podman, for which podman has to build' ;;
    esac ;;
esac
if [ -n "$why" ] && { [ "$what" = up ] || [ "$what" = restart ]; }; then
  command -v dkdbg >/dev/null || {
    echo "dkdbg: the engine $why; dkdbg does that: pip install dkdbg" >&2
    exit 1
  }
  dkdbg up || exit
  [ "$what" = up ] || exec dkdbg restart
  case $why in *Podman*) exit 0 ;; esac
  [ ! -r /proc/net/tcp ] || listens "${attaches_to:-$port}" || {
    printf '%s\n' "dkdbg: run this in a terminal, and press F5 again:  dkdbg attach --port ${attaches_to:-$port}" >&2
    exit 1
  }
  exit 0
fi

# Labels of another user's container may hold control characters, of which UTF-8 has some in two bytes.
plain() {
  c1=$(printf '\302[\200-\237]')
  printf '%s' "$1" | LC_ALL=C tr '\001-\037\177' '?' | LC_ALL=C sed "s/$c1/?/g"
}
# Compose tells projects apart by their folder's name alone: the containers of another folder would be replaced.
for other in $(docker compose --profile debug ps --all --quiet 2>/dev/null); do
  folder=$(docker inspect -f '{{index .Config.Labels "com.docker.compose.project.working_dir"}}' "$other" 2>/dev/null) || continue
  if [ -n "$remote" ]; then # which has users of other machines: `dkdbg up` labels containers with user, machine and folder
    from=$(docker inspect -f '{{index .Config.Labels "dev.dkdbg.from"}}' "$other") || continue
    [ "$from" != "${LOGNAME:-${USER:-${LNAME:-${USERNAME:-$(id -un)}}}}@$(uname -n):$(pwd -P)" ] || continue
    folder=${from:-$folder}
  else
    case $(LC_ALL=C ls -d -- "$folder/." 2>&1) in
      *': Permission denied') ;; # the private folder of another user
      *) folder=$(cd -P "$folder" 2>/dev/null && pwd) || continue ;;
    esac
  fi
  # COMPOSE_FILE=ops/base.yaml makes `ops` the project's folder, ../base.yaml the folder above.
  case $folder/ in "$(pwd -P)"/*) break ;; esac
  case $(pwd -P)/ in "$folder"/*) break ;; esac
  name=$(docker inspect -f '{{index .Config.Labels "com.docker.compose.project"}}' "$other")
  folder=$(plain "$folder") name=$(plain "$name")
  printf '%s\n' "dkdbg: $folder has a compose project called $name too; compose would take its containers for this one's." >&2
  printf '%s\n' "dkdbg: give this one another name, then start again:  printf '\\nCOMPOSE_PROJECT_NAME=$name-2\\n' >> .env" >&2
  exit 1
done
case $what in
  stop) exec docker compose --progress plain --profile debug stop app-debug ;;
  down) exec docker compose --progress plain --profile debug rm --stop --force app-debug ;;
esac
port=${DKDBG_PORT:-$port}
check_port() { # where something else answers for the editor, such as `dkdbg attach`, the port is meant to be another one
  [ "${attaches_to:-$port}" != "$port" ] || return 0
  listens "$attaches_to" && return 0
  printf '%s\n' "dkdbg: launch.json attaches to port $attaches_to, but the debug service gets port $port" >&2
  printf '%s\n' "dkdbg: make them equal: \"port\": $port in launch.json, or DKDBG_PORT=$attaches_to in .env" >&2
  exit 1
}
check_port
# `dkdbg run -- CMD` has the port, with another command in the place of the service's: F5 is for that one.
if [ "$what" = up ]; then
  once=$(docker ps --quiet --filter label=dev.dkdbg.session=app-debug --filter label=com.docker.compose.oneoff=True \
    --filter "publish=$port" 2>/dev/null | head -n 1)
  while [ -n "$once" ]; do
    case $(docker inspect -f '{{.State.Health.Status}}' "$once" 2>/dev/null) in
      starting) sleep 0.2 ;;
      healthy)
        echo "dkdbg: attaching to what dkdbg run has started"
        exit 0
        ;;
      *) once= ;;
    esac
  done
fi

# A build would run git in its context, with the configuration that lies there.
export BUILDX_GIT_INFO=false
build=--build
# The code is mounted: a start builds the image only when something has changed that the image is made of.
sum=sha256sum
command -v sha256sum >/dev/null 2>&1 || sum='shasum -a 256'
# One digest of what an image is made of; a path with a slash at its end stands for the files there that name dependencies.
# No link is followed, only looked at: it may lead to the whole machine. A folder behind one always counts as changed.
image_inputs() {
  {
    printf '%s\n' "${DKDBG_BASE-}" "${DKDBG_CA-}" "${DOCKER_HOST-}" "${DOCKER_CONTEXT-}"
    grep currentContext "${DOCKER_CONFIG:-${HOME:-}/.docker}/config.json" || :
    for path in .env "$@"; do
      if [ -L "./${path%/}" ] && [ -d "./$path" ]; then
        echo "$$ $(date +%s)"
        continue
      fi
      case $path in
        */) find "./${path%/}" -maxdepth 3 \( -name 'requirement*' -o -name 'constraint*' \
          -o -name '*.lock' -o -name 'pyproject.toml' -o -name 'setup.*' -o -name 'environment*.y*ml' -o -name 'Pipfile*' \
          -o -name '*.sh' \) \( -type f -size -20480 -exec $sum {} + -o -type l -exec ls -dlnL {} + \) || : ;;
        *) find "./$path" -type f -size -20480 -exec $sum {} + -o \( -type f -o -type l \) -exec ls -dlnL {} + || : ;;
      esac
    done
  } 2>/dev/null | LC_ALL=C sort | $sum | cut -d ' ' -f 1
}
# Where is noted of which inputs a service's image was made: for this user on this machine.
image_stamp() {
  echo "${XDG_CACHE_HOME:-${HOME:-}/.cache}/dkdbg/built/$(pwd -P | cksum | tr ' ' -)-$1"
}
stamp=$(image_stamp app-debug)
inputs=$(image_inputs Dockerfile Dockerfile.dockerignore requirements.txt) || inputs=
if [ -n "$inputs" ] && read -r former image id 2>/dev/null <"$stamp" && [ "$former" = "$inputs" ] &&
  [ "$(docker image inspect --format '{{.Id}}' "$image" 2>/dev/null)" = "$id" ]; then
  build=
fi
built=$build
# Name and id of the image, and the project, of the service's container.
container() {
  docker inspect --format '{{.Config.Image}} {{.Image}} {{index .Config.Labels "com.docker.compose.project"}}' \
    "$(docker compose --profile debug ps --all --quiet app-debug | head -n 1)" 2>/dev/null
}
running=$([ "$what" = up ] || docker compose --profile debug ps --quiet --status running app-debug 2>/dev/null) || :
start=$(date -u +%Y-%m-%dT%H:%M:%SZ)
status=0
docker compose --progress plain --profile debug up $build --detach --wait --wait-timeout 300 app-debug || status=$?
if [ "$status" != 0 ]; then
  # Compose gives up when a container ends that it starts along, as one does that only prepares something.
  case $(docker compose --profile debug ps --format '{{.State}} {{.Health}}' app-debug 2>/dev/null) in
    "running starting" | "running healthy")
      docker compose --progress plain --profile debug up --no-deps --no-recreate --detach --wait --wait-timeout 300 app-debug && status=0
      ;;
  esac
fi
if [ "$status" = 0 ] && [ -n "$built" ]; then
  container | while read -r image id project; do
    [ -z "$inputs" ] || (umask 077 && mkdir -p "${stamp%/*}" && echo "$inputs $image $id" >"$stamp") 2>/dev/null || :
    # What the build has replaced: images without a name that compose has made for this service.
    docker image prune --force --filter "label=com.docker.compose.project=$project" \
      --filter label=com.docker.compose.service=app-debug >/dev/null || :
  done
fi
[ "$status" != 0 ] || check_port # again: a container of another port may have answered
if [ "$status" != 0 ]; then
  # Compose says that a container exited, not why. Lines of an earlier run would only mislead.
  docker compose --profile debug logs --no-color --no-log-prefix --since "$start" --tail 15 app-debug 2>/dev/null || :
  case $(docker compose --profile debug ps --all --format '{{.State}}' app-debug 2>/dev/null) in
    created)
      echo "dkdbg: when a port is taken: dkdbg up takes a free one and writes it to launch.json and .env"
      ;;
  esac
fi
published=$(docker compose --profile debug port app-debug 5678 2>/dev/null) || published=:0
if [ "$status" = 0 ] && [ "${published##*:}" = 0 ] && [ -r /proc/net/tcp ] && ! listens "${attaches_to:-$port}"; then
  printf '%s\n' "dkdbg: app-debug has no port on this machine; run this in a terminal, and press F5 again:  dkdbg attach --port ${attaches_to:-$port}" >&2
  exit 1
fi
# Still the same container: the program in it is the former one.
if [ "$status" = 0 ] && [ -n "$running" ] &&
  [ "$(docker compose --profile debug ps --quiet --status running app-debug)" = "$running" ]; then
  exec docker compose --profile debug exec -T app-debug sh /opt/dkdbg/agent.pyz restart </dev/null
fi
exit "$status"
