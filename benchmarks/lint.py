"""Objects per second that `tenantry lint` looks at with all rules, against merely loading the same files with PyYAML.

Writes 10,000 objects of 1,000 endpoints as plain manifests, two namespaces to a file, and lints them in this process.
Counts its CPU time. Prints a table and the ratio to what loading the text alone costs with PyYAML and libyaml.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import yaml

from provisioner.catalog.loader import load_catalog
from provisioner.lint.engine import lint_paths
from provisioner.lint.kubernetes import chosen_version

ENDPOINTS = 1_000
OBJECTS_EACH = 10
GOAL_SECONDS = 5.0


def main() -> None:
    """Measure and print the table."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_manifests(root)
        size = sum(file.stat().st_size for file in root.iterdir())
        catalog, version = load_catalog(), chosen_version(None)
        start = time.process_time()
        findings = lint_paths([root], catalog=catalog, kubernetes=version)
        linting = time.process_time() - start
        start = time.process_time()
        for file in root.iterdir():
            list(yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader))
        loading = time.process_time() - start
    count = ENDPOINTS * OBJECTS_EACH
    print(f"{count:,} objects, {size / 1e6:.1f} MB, {len(findings):,} findings")
    print(f"{'':<24}{'CPU s':>9}{'objects/s':>12}")
    print(f"{'PyYAML, loading alone':<24}{loading:>9.2f}{count / loading:>12,.0f}")
    print(f"{'lint, all rules':<24}{linting:>9.2f}{count / linting:>12,.0f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    verdict = "met" if linting <= GOAL_SECONDS else "missed"
    print(f"goal: {GOAL_SECONDS:.0f} s; ratio to loading {linting / loading:.2f}; peak {peak / 1e6:.0f} MB ({verdict})")


def write_manifests(root: Path) -> None:
    """All endpoints, two to a file."""
    for number in range(0, ENDPOINTS, 2):
        texts = [MANIFESTS.replace("-@", f"-{one:04d}").replace("$DIGEST", "0f" * 32) for one in (number, number + 1)]
        (root / f"endpoints-{number:04d}.yaml").write_text("".join(texts))


MANIFESTS = """\
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: ep-@
  namespace: inference-@
automountServiceAccountToken: false
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: ep-@-settings
  namespace: inference-@
  labels:
    app.kubernetes.io/name: ep-@
    app.kubernetes.io/part-of: acme
data:
  language: en
  system-prompt: |
    You answer briefly.
    You name your sources.
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: ep-@-models
  namespace: inference-@
spec:
  accessModes: [ReadWriteMany]
  storageClassName: shared
  resources:
    requests:
      storage: 200Gi
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ep-@
  namespace: inference-@
  labels:
    app.kubernetes.io/name: ep-@
    app.kubernetes.io/part-of: acme
spec:
  strategy:
    type: Recreate
  progressDeadlineSeconds: 3600
  selector:
    matchLabels:
      app.kubernetes.io/name: ep-@
  template:
    metadata:
      labels:
        app.kubernetes.io/name: ep-@
        app.kubernetes.io/part-of: acme
    spec:
      serviceAccountName: ep-@
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 120
      securityContext:
        runAsNonRoot: true
        runAsUser: 1000
        seccompProfile:
          type: RuntimeDefault
      tolerations:
        - key: nvidia.com/gpu
          operator: Exists
          effect: NoSchedule
      containers:
        - name: server
          image: registry.example.com/vllm/vllm-openai:v0.11.0@sha256:$DIGEST
          args:
            - --model=/models/Qwen3-14B
            - --served-model-name=ep-@
            - --port=8000
            - --max-model-len=8192
            - --gpu-memory-utilization=0.9
          env:
            - name: HF_HUB_OFFLINE
              value: "1"
          envFrom:
            - configMapRef:
                name: ep-@-settings
          ports:
            - name: http
              containerPort: 8000
          startupProbe:
            httpGet:
              path: /health
              port: http
            periodSeconds: 10
            failureThreshold: 180
          livenessProbe:
            httpGet:
              path: /health
              port: http
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: /health
              port: http
            timeoutSeconds: 5
          resources:
            requests:
              cpu: "8"
              memory: 64Gi
              nvidia.com/gpu: "1"
            limits:
              memory: 64Gi
              nvidia.com/gpu: "1"
          securityContext:
            allowPrivilegeEscalation: false
            capabilities:
              drop: [ALL]
          volumeMounts:
            - name: models
              mountPath: /models
              readOnly: true
            - name: shm
              mountPath: /dev/shm
      volumes:
        - name: models
          persistentVolumeClaim:
            claimName: ep-@-models
        - name: shm
          emptyDir:
            medium: Memory
            sizeLimit: 8Gi
---
apiVersion: v1
kind: Service
metadata:
  name: ep-@
  namespace: inference-@
  labels:
    app.kubernetes.io/name: ep-@
spec:
  selector:
    app.kubernetes.io/name: ep-@
  ports:
    - name: http
      port: 80
      targetPort: http
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: ep-@
  namespace: inference-@
spec:
  parentRefs:
    - name: public
      namespace: gateways
  hostnames:
    - ep-@.acme.example.com
  rules:
    - matches:
        - path:
            type: PathPrefix
            value: /v1
      timeouts:
        request: 3600s
        backendRequest: 3600s
      backendRefs:
        - name: ep-@
          port: 80
---
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata:
  name: ep-@
  namespace: inference-@
spec:
  scaleTargetRef:
    name: ep-@
  minReplicaCount: 1
  maxReplicaCount: 4
  cooldownPeriod: 600
  triggers:
    - type: prometheus
      metadata:
        serverAddress: http://prometheus.monitoring.svc.cluster.local:9090
        query: sum(vllm:num_requests_waiting{namespace="inference-@"})
        threshold: "4"
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: ep-@
  namespace: inference-@
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      app.kubernetes.io/name: ep-@
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: ep-@
  namespace: inference-@
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: gateways
      ports:
        - protocol: TCP
          port: 8000
  egress:
    - to:
        - namespaceSelector:
            matchLabels:
              kubernetes.io/metadata.name: kube-system
      ports:
        - protocol: UDP
          port: 53
        - protocol: TCP
          port: 53
---
apiVersion: monitoring.coreos.com/v1
kind: PodMonitor
metadata:
  name: ep-@
  namespace: inference-@
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: ep-@
  podMetricsEndpoints:
    - port: http
      path: /metrics
"""

if __name__ == "__main__":
    main()
