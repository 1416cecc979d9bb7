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
if [ ! -f "$here/agent.pyz" ]; then
  echo "dkdbg: this Feature lacks agent.pyz beside install.sh; 'dkdbg init' writes one into .dkdbg/" >&2
  exit 1
fi

# Only what is ours is removed, of earlier versions too: the folder may be one that holds other things.
rm -rf "$target/dkdbg" "$target/agent.sh" "$target"/debugpy-*.zip
mkdir -p "$target"
cp "$here/agent.pyz" "$target/agent.pyz"
# Every user of the container runs the agent, none but root changes it. The checkout's own modes say nothing.
chmod 755 "$target" "$target/agent.pyz"
echo "dkdbg: agent installed; start a program with: sh $target/agent.pyz launch -- python train.py"
