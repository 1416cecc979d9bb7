"""Job protocols for tests, written for them in the ways in which people write theirs."""

PLAIN = """\
protocolVersion: 2
name: mnist  # as the portal has it
type: job
description: |
  # MNIST

  deployments:
    - name: debug   (a text, not the thing)
prerequisites:
  - name: image
    type: dockerimage
    uri: "example/torch:1.2"
parameters:
  epochs: 3
taskRoles:
  worker:
    instances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 2
      memoryMB: 16384
      gpu: 0   # none left
    commands:
      - python setup.py install
      - >-
        python train.py
        --epochs <% $parameters.epochs %>
"""

#: Two roles, a deployment that the job needs, comments at its end.
DEPLOYED = """\
protocolVersion: "2"
name: two_roles
type: job
prerequisites:
  - {name: image, type: dockerimage, uri: "example/tf"}
taskRoles:
  ps:
    dockerImage: image
    resourcePerInstance: {cpu: 1, memoryMB: 1024, gpu: 0}
    commands: [python3 -u serve.py]
  worker:
    dockerImage: image
    resourcePerInstance:
      cpu: 1
      memoryMB: 1024
      gpu: 0
      ports:
        rpc: 2  # ours
    commands:
      - cd code
      - CUDA_VISIBLE_DEVICES=0 python3 -u train.py && echo done
deployments:
  # what production does
  - name: prod
    taskRoles:
      worker:
        preCommands:
          - mkdir -p code
          - |
            cat > code/note <<X
              indented
            X
        postCommands:
          - echo "kept" # and said
defaults:
  virtualCluster: default
  deployment: prod  # the usual one
# the end
"""

#: As OpenPAI's recipe has it.
BY_HAND = """\
protocolVersion: 2
name: by_hand
type: job
prerequisites:
  - name: image
    type: dockerimage
    uri: example/torch
taskRoles:
  train:
    instances: 1
    dockerImage: image
    resourcePerInstance:
      cpu: 2
      memoryMB: 16384
      gpu: 0
      ports:
        debug: 1
    commands:
      - PYTHONPATH=$PYTHONPATH:/pai_data/debug DEBUG_PORT_NAME=debug DEBUG_TIMEOUT=600 python3 -m paipdb train.py --lr 1
deployments:
  - name: debug
    taskRoles:
      train:
        preCommands:
          - >-
            if [ ! -d /pai_data/debug ]; then mkdir --parents /pai_data/debug; fi
          - apt-get install -y --no-install-recommends wget
          # the data
          - echo data
          - >-
            wget
            https://raw.githubusercontent.com/microsoft/pai/master/contrib/debug-tools/openpaipdb/paipdb.py
            -P /pai_data/debug

defaults:
  deployment: debug"""
