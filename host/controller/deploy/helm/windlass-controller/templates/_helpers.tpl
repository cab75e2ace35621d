{{- define "windlass.labels" -}}
app.kubernetes.io/name: windlass-controller
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
cluster.x-k8s.io/provider: infrastructure-windlass
{{- end }}
{{- define "windlass.selector" -}}
control-plane: windlass-controller
{{- end }}
{{- define "windlass.claim" -}}
{{ .Values.persistence.existingClaim | default (printf "%s-state" .Release.Name) }}
{{- end }}
