# Copy into a volume the files that only the image has, below the folders that the checkout is mounted over.
# usage: image_files PROJECT SERVICE FOLDERS OWNER CHECKOUT [MASK...]
#   FOLDERS: in the image, over which the checkout (/app), or a folder of it (src=/app/src), is mounted; colons between
#   them. OWNER: 1 gives the copies to whom that belongs.
#   CHECKOUT: folder on the engine's machine; empty where it has none, which copies what the checkout has as well.
image_files() {
  project=$1 service=$2 folders=$3 owner=$4 volume=${1}_dkdbg-image
  checkout="type=bind,\"source=$5\",readonly"
  [ -n "$5" ] || checkout=type=tmpfs
  shift 5
  image=$(docker image ls --quiet --filter dangling=false --filter "label=com.docker.compose.project=$project" \
    --filter "label=com.docker.compose.service=$service" | head -n 1)
  id=$(docker image inspect --format '{{.Id}}' "$image" 2>/dev/null) || return 0
  # A start that was killed, or another one, may still be copying: that ends first.
  if docker container inspect "$volume-copy" >/dev/null 2>&1; then
    docker start --attach "$volume-copy" || docker volume rm "$volume" >/dev/null 2>&1 || :
  fi
  former=$(docker volume inspect --format '{{index .Labels "dev.dkdbg.image"}}' "$volume" 2>/dev/null) || former=
  [ "$former" != "$id" ] || return 0
  # The debug service itself gets a new container with the new image; others may run somebody's program.
  docker ps --all --quiet --filter "volume=$volume" --filter "label=com.docker.compose.service=$service" \
    --filter label=com.docker.compose.oneoff=False | while read -r one; do docker rm --force "$one" >/dev/null; done
  docker volume rm "$volume" >/dev/null 2>&1 || :
  if docker volume inspect "$volume" >/dev/null 2>&1; then
    echo "a container that runs still has those of a former image"
    return 0
  fi
  links_away # of an agent that was killed
  docker volume create --label "dev.dkdbg.image=$id" --label "com.docker.compose.project=$project" \
    --label com.docker.compose.volume=dkdbg-image "$volume" >/dev/null
  docker run --rm --name "$volume-copy" --user 0:0 --network none --security-opt label=disable \
    --mount "type=volume,source=$volume,target=/opt/dkdbg-image" \
    --mount "$checkout,target=/opt/dkdbg-code" --entrypoint sh "$image" -c '
      folders=$1: owner=$2
      shift 2
      masks=" $* "
      look() {
        for path in "$1"/* "$1"/.[!.]*; do
          [ -e "$path" ] || [ -L "$path" ] || continue
          name=${path#./}
          case ${path##*/} in __pycache__ | .git | .dkdbg) continue ;; esac
          case $masks in *" $folder/$name "*) continue ;; esac
          if [ -e "$code/$name" ] || [ -L "$code/$name" ]; then
            if [ -d "$path" ] && [ ! -L "$path" ] && [ -d "$code/$name" ]; then look "$path"; fi
          elif [ ! -e "$to/$name" ]; then # a folder of the checkout may be mounted twice
            case $name in */*) mkdir -p "$to/${name%/*}" ;; esac
            cp -a "$path" "$to/$name" || exit 1
          fi
        done
      }
      while [ -n "$folders" ]; do
        each=${folders%%:*} folders=${folders#*:}
        case $each in
          /*) folder=$each local= ;;
          *) folder=/${each#*=/} local=/${each%%=/*} ;;
        esac
        code=/opt/dkdbg-code$local to=/opt/dkdbg-image$local
        cd "$folder" 2>/dev/null || continue
        mkdir -p "$to"
        look .
      done
      to=/opt/dkdbg-image
      [ "$owner" != 1 ] || chown -R "$(stat -c %u:%g /opt/dkdbg-code)" "$to"' sh "$folders" "$owner" "$@" || {
    docker volume rm "$volume" >/dev/null 2>&1 || :
    echo "they could not be copied; the next start tries again"
  }
}
# While a session lasts, links show those in the checkout. A build would take them for files of yours: links prints them,
# links_away removes them, and links_back makes them again from that list. A name with a line break would read as two.
links() {
  find . -name .git -prune -o -type l ! -path '*
*' -print | while IFS= read -r link; do
    [ "$(readlink "$link")" != "/opt/dkdbg-image/${link#./}" ] || printf '%s\n' "$link"
  done
}
links_away() { # with the folders that contained nothing else
  found=$(links)
  printf '%s\n' "$found" | while IFS= read -r link; do [ -z "$link" ] || rm -f "$link"; done
  printf '%s\n' "$found" | while IFS= read -r link; do
    [ ! -d "${link%/*}" ] || rmdir -p "${link%/*}" 2>/dev/null || :
  done
}
links_back() {
  root=$(pwd -P)
  while IFS= read -r link; do
    [ -n "$link" ] || continue
    # A running program may have replaced a folder by a link that leads elsewhere.
    folder=${link%/*}
    while [ ! -e "$folder" ] && [ ! -L "$folder" ] && [ "$folder" != "${folder%/*}" ]; do folder=${folder%/*}; done
    case $(CDPATH='' cd -P -- "$folder" 2>/dev/null && pwd)/ in "$root"/*) ;; *) continue ;; esac
    [ -d "${link%/*}" ] || mkdir -p "${link%/*}"
    [ -e "$link" ] || [ -L "$link" ] || ln -s "/opt/dkdbg-image/${link#./}" "$link"
  done
}
# Run a build without the links; one that a signal ends fails after the links are back.
without_links() {
  failed=
  trap 'failed=1' HUP INT TERM
  away=$(links) || failed=1
  if [ -z "$failed" ]; then # else that list is cut short
    links_away
    [ -n "$failed" ] || "$@" || failed=1
  fi
  trap '' HUP INT TERM
  printf '%s\n' "$away" | links_back # echo would interpret a backslash
  trap - HUP INT TERM
  [ -z "$failed" ]
}
