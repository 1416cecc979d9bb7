#!/bin/bash
# Run by `devcontainer features test` inside a container that was built with the Feature.
set -e
source dev-container-features-test-lib

check "the agent is where the option's default says" test -f /opt/dkdbg/agent.pyz
check "the agent's debugpy is in it" sh -c 'python3 -m zipfile -l /opt/dkdbg/agent.pyz | grep -q ^debugpy-'
check "everybody may read it" sh -c 'test -z "$(find /opt/dkdbg ! -perm -444)"'
check "nobody but root may change it" sh -c 'test -z "$(find /opt/dkdbg -perm /022)"'
check "a program runs under it" sh -c '
  out=$(sh /opt/dkdbg/agent.pyz launch --port 0 -- python3 -c "import sys; print(\"trained\"); sys.exit(5)")
  test "$? $out" = "5 trained"'
reportResults
