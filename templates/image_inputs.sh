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
