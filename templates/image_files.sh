# What the image alone has below the folder that the checkout is mounted over, copied into a volume.
# usage: image_files PROJECT SERVICE FOLDER OWNER [MASK...]
#   FOLDER: in the image, over which the working directory is mounted. OWNER: 1 gives the copies to whom that belongs.
image_files() {
  project=$1 volume=${1}_dkdbg-image folder=$3 owner=$4
  image=$(docker image ls --quiet --filter "label=com.docker.compose.project=$1" \
    --filter "label=com.docker.compose.service=$2" | head -n 1)
  shift 4
  id=$(docker image inspect --format '{{.Id}}' "$image" 2>/dev/null) || return 0
  [ "$(docker volume inspect --format '{{index .Labels "dev.dkdbg.image"}}' "$volume" 2>/dev/null)" != "$id" ] || return 0
  docker volume rm "$volume" >/dev/null 2>&1 || docker volume inspect "$volume" >/dev/null 2>&1 && {
    docker ps --all --quiet --filter "volume=$volume" | xargs -r docker rm --force >/dev/null
    docker volume rm "$volume" >/dev/null
  }
  docker volume create --label "dev.dkdbg.image=$id" --label "com.docker.compose.project=$project" \
    --label com.docker.compose.volume=dkdbg-image "$volume" >/dev/null
  docker run --rm --user 0:0 --network none --volume "$volume:/opt/dkdbg-image" --volume "$(pwd -P):/opt/dkdbg-code:ro" \
    --entrypoint sh "$image" -c '
      cd "$1" 2>/dev/null || exit 0
      folder=$1 owner=$2 code=/opt/dkdbg-code to=/opt/dkdbg-image
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
          else
            case $name in */*) mkdir -p "$to/${name%/*}" ;; esac
            cp -a "$path" "$to/$name"
          fi
        done
      }
      look .
      [ "$owner" != 1 ] || chown -R "$(stat -c %u:%g "$code")" "$to"' sh "$folder" "$owner" "$@"
}
