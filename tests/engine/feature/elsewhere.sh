#!/bin/bash
# The scenario `elsewhere`: another folder, and a user who is not root.
set -e
source dev-container-features-test-lib

check "the agent is where the option says" test -f "/srv/my tools/agent.pyz"
check "what was there stays" test ! -e /opt/dkdbg
check "a user starts it" sh "/srv/my tools/agent.pyz" --help
reportResults
