#!/bin/sh
# Copies the dkdbg agent from beside this file into the image. Runs as root while the image is built; no network.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
# Options arrive as upper-case variables (devcontainers spec, "Option Resolution"): hence not `path`, which would be PATH.
target=${INSTALLPATH:-/opt/dkdbg}

case $target in
/?*) ;;
*)
  echo "dkdbg: installPath must be an absolute folder other than /, not '$target'" >&2
  exit 1
  ;;
esac
if [ ! -f "$here/agent.sh" ] || [ ! -f "$here/dkdbg/agent/__main__.py" ]; then
  echo "dkdbg: this Feature lacks the agent beside install.sh; 'dkdbg init' writes the Feature together with it" >&2
  exit 1
fi

# Only what is ours is removed: the folder may be one that holds other things too.
rm -rf "$target/dkdbg" "$target/agent.sh" "$target"/debugpy-*.zip
mkdir -p "$target"
cp -R "$here/dkdbg" "$here/agent.sh" "$target/"
for bundle in "$here"/debugpy-*.zip; do
  if [ -f "$bundle" ]; then
    cp "$bundle" "$target/"
  fi
done
# Every user of the container runs the agent, none but root changes it. The checkout's own modes say nothing.
chmod -R u=rwX,go=rX "$target/dkdbg"
chmod 755 "$target" "$target/agent.sh"
for bundle in "$target"/debugpy-*.zip; do
  if [ -f "$bundle" ]; then
    chmod 644 "$bundle"
  fi
done
echo "dkdbg: agent installed; start a program with: sh $target/agent.sh launch -- python train.py"
