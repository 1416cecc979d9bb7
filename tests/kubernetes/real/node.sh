#!/usr/bin/env bash
# One node with everything of Kubernetes 1.20, inside one privileged container: an engine of its own, etcd, API server,
# controllers, scheduler, kubelet. /out gets `kubeconfig` and, once a pod can be made, `up`; /images are loaded.
set -euo pipefail
mkdir -p /k/pki /k/log /k/kernel /var/lib/kubelet
mount --make-rshared /

# A kubelet sets these for the whole machine, unless they are what it wants already: it reads files of ours instead.
while read -r name value; do
  [ -e "/proc/sys/$name" ] || continue
  echo "$value" >"/k/kernel/${name//\//.}"
  mount --bind "/k/kernel/${name//\//.}" "/proc/sys/$name"
done <<'SETTINGS'
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
SETTINGS

# Without CAP_SYS_RESOURCE on this machine a negative oom_score_adj cannot be set.
cat >/usr/local/sbin/runc <<'RUNC'
#!/bin/sh
prev=
for each in "$@"; do
  [ "$prev" = --bundle ] && [ -f "$each/config.json" ] && sed -i 's/"oomScoreAdj":-[0-9]*/"oomScoreAdj":0/' "$each/config.json"
  prev=$each
done
exec /usr/sbin/runc "$@"
RUNC
chmod 755 /usr/local/sbin/runc
export PATH=/usr/local/sbin:/usr/local/bin:$PATH
dockerd --bip 172.29.0.1/24 --exec-opt native.cgroupdriver=cgroupfs >/k/log/dockerd 2>&1 &
etcd --data-dir /k/etcd --unsafe-no-fsync --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 >/k/log/etcd 2>&1 &

cd /k/pki
address=$(hostname -i | awk '{print $1}')
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout ca.key -out ca.crt -subj /CN=dkdbg-test >/dev/null 2>&1
openssl genrsa -out sa.key 2048 2>/dev/null
certificate() { # NAME SUBJECT NAMES
  openssl req -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.csr" -subj "$2" >/dev/null 2>&1
  echo "subjectAltName=$3" >"$1.ext"
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile "$1.ext" -out "$1.crt" >/dev/null 2>&1
}
certificate apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:$address,IP:10.96.0.1,DNS:kubernetes,DNS:localhost"
certificate kubelet-client /O=system:masters/CN=apiserver-kubelet-client DNS:x
certificate kubelet "/O=system:nodes/CN=system:node:$(hostname)" "IP:$address,DNS:$(hostname)"
token=$(openssl rand -hex 16)
(umask 077 && echo "$token,admin,admin,\"system:masters\"" >tokens.csv)

kube-apiserver --etcd-servers=http://127.0.0.1:2379 --service-cluster-ip-range=10.96.0.0/16 --secure-port=6443 \
  --tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key --client-ca-file=ca.crt --token-auth-file=tokens.csv \
  --authorization-mode=RBAC --service-account-key-file=sa.key --service-account-signing-key-file=sa.key \
  --service-account-issuer=https://kubernetes.default.svc --kubelet-client-certificate=kubelet-client.crt \
  --kubelet-client-key=kubelet-client.key --kubelet-certificate-authority=ca.crt --allow-privileged=true \
  --kubelet-preferred-address-types=InternalIP --enable-admission-plugins=NodeRestriction >/k/log/apiserver 2>&1 &
cat >/k/admin.conf <<CONFIG
apiVersion: v1
kind: Config
clusters: [{name: real, cluster: {server: "https://$address:6443", certificate-authority-data: $(base64 -w0 ca.crt)}}]
users: [{name: admin, user: {token: $token}}]
contexts: [{name: real, context: {cluster: real, user: admin}}]
current-context: real
CONFIG

answers() {
  exec 3<>/dev/tcp/127.0.0.1/6443 || return 1
  exec 3>&-
  python3 - "$token" <<'ASK'
import ssl, sys, urllib.request
asked = urllib.request.Request("https://127.0.0.1:6443/readyz", headers={"Authorization": "Bearer " + sys.argv[1]})
sys.exit(urllib.request.urlopen(asked, context=ssl.create_default_context(cafile="/k/pki/ca.crt"), timeout=5).read() != b"ok")
ASK
}
until answers 2>/dev/null; do sleep 0.2; done
kube-controller-manager --kubeconfig=/k/admin.conf --root-ca-file=ca.crt --service-account-private-key-file=sa.key \
  --use-service-account-credentials=true --leader-elect=false >/k/log/controllers 2>&1 &
kube-scheduler --kubeconfig=/k/admin.conf --leader-elect=false >/k/log/scheduler 2>&1 &
until docker info >/dev/null 2>&1; do sleep 0.2; done
for each in /images/*.tar; do docker load -q -i "$each"; done
printf 'FROM %s\nCMD ["sleep","infinity"]\n' "$PAUSE_FROM" | docker build -q -t pause:local - >/dev/null

cat >/k/kubelet.yaml <<CONFIG
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {x509: {clientCAFile: /k/pki/ca.crt}, webhook: {enabled: true}, anonymous: {enabled: false}}
authorization: {mode: Webhook}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
imageGCHighThresholdPercent: 100
evictionHard: {nodefs.available: "1%", memory.available: "50Mi"}
tlsCertFile: /k/pki/kubelet.crt
tlsPrivateKeyFile: /k/pki/kubelet.key
clusterDomain: cluster.local
readOnlyPort: 0
CONFIG
kubelet --config=/k/kubelet.yaml --kubeconfig=/k/admin.conf --container-runtime=docker --pod-infra-container-image=pause:local \
  --node-ip="$address" --register-node=true --v=2 >/k/log/kubelet 2>&1 &
install -m600 /k/admin.conf /out/kubeconfig
touch /out/up
wait
