{{- define "windlass.rules" -}}
- apiGroups: [infrastructure.windlass.dev]
  resources: [applesiliconmachines, instancemachines{{ if .Values.serverClusters.enabled }}, serverclusters{{ end }}]
  verbs: [get, list, watch, patch]
- apiGroups: [infrastructure.windlass.dev]
  resources: [externalclusters{{ if .Values.remediation }}, machineremediations{{ end }}, applesiliconmachinetemplates, instancemachinetemplates, policies]
  verbs: [get, list, watch]
- apiGroups: [infrastructure.windlass.dev]
  resources:
  - applesiliconmachines/status
  - applesiliconmachinetemplates/status
  - instancemachines/status
  - instancemachinetemplates/status
  - externalclusters/status
  {{- if .Values.remediation }}
  - machineremediations/status
  {{- end }}
  {{- if .Values.serverClusters.enabled }}
  - serverclusters/status
  {{- end }}
  - policies/status
  verbs: [patch]
{{- if .Values.serverClusters.enabled }}
# The record of a cluster's operations is written whole, under the object's version.
- apiGroups: [infrastructure.windlass.dev]
  resources: [serverclusters/status]
  verbs: [update]
{{- end }}
{{- if and .Values.serverClusters.enabled .Values.serverClusters.hookJobs }}
# Hooks of clusters: a Job each, its input, and how its pod ended (not what it wrote: no logs are read).
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, create, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- end }}
# Approvals, the files of set-ups and policies that objects name.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
# So that the Secret of a Mac may name the object as its owner where OwnerReferencesPermissionEnforcement is on.
- apiGroups: [infrastructure.windlass.dev]
  resources: [applesiliconmachines/finalizers]
  verbs: [update]
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, machines]
  verbs: [get, list, watch]
# Cluster API waits for its own Machines to call a control plane initialized; of one that is managed elsewhere we say
# so.
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters/status]
  verbs: [patch]
# A Machine whose host or server the release policy has given up is marked for replacement; whoever owns it deletes it.
- apiGroups: [cluster.x-k8s.io]
  resources: [machines/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
{{- define "windlass.secretRules" -}}
# Bootstrap data and credentials are read by name, credentials of Macs are written by name; nothing is listed.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
{{- end }}
{{- define "windlass.identityRules" -}}
# Its UID makes the owner's name, where --owner does not give one.
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [kube-system]
  verbs: [get]
{{- end }}
{{- define "windlass.watched" -}}
{{ with .Values.watchNamespace }}-{{ . }}{{ end }}{{ with .Values.watchFilter }}.{{ . }}{{ end }}
{{- end }}
{{- define "windlass.leases" -}}
windlass-controller{{ include "windlass.watched" . }}
{{- if gt (int .Values.shards) 1 }}
{{- range $number := until (int .Values.shards) }}
{{- range list "shard" "replica" }}, windlass-{{ . }}-{{ $number }}-of-{{ $.Values.shards }}{{ include "windlass.watched" $ }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- define "windlass.subject" -}}
- kind: ServiceAccount
  name: windlass-controller
  namespace: {{ .Release.Namespace }}
{{- end }}
