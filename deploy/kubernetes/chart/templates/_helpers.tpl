{{- define "penstock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" }}
{{- else if contains (include "penstock.name" .) .Release.Name }}
{{- .Release.Name | trunc 53 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "penstock.name" .) | trunc 53 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "penstock.selectorLabels" -}}
app.kubernetes.io/name: {{ include "penstock.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
{{ include "penstock.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "penstock.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "penstock.fullname" .) .Values.serviceAccount.name }}{{ else }}{{ default "default" .Values.serviceAccount.name }}{{ end }}
{{- end }}

{{- define "penstock.secretName" -}}
{{- default (include "penstock.fullname" .) .Values.existingSecret }}
{{- end }}

{{- define "penstock.hasSecret" -}}
{{- if or .Values.existingSecret .Values.keySecret }}yes{{ end }}
{{- end }}

{{/* The configuration file: what the values say, and .Values.config on top. */}}
{{- define "penstock.config" -}}
{{- if and .Values.redis.addresses (not (include "penstock.hasSecret" .)) }}{{ fail "nodes on one Redis need the same key_secret: set existingSecret or keySecret" }}{{ end }}
{{- if and .Values.admin.enabled (not (and .Values.admin.tlsSecret .Values.existingSecret)) }}{{ fail "the admin listener needs admin.tlsSecret, and existingSecret with admin-token and viewer-token" }}{{ end }}
{{- $listen := dict "gateway" (ternary ":8080" "" .Values.gateway.enabled) "grpc" (ternary ":8081" "" .Values.grpc.enabled) "http" ":8090" "health" ":8092" "admin" (ternary ":8091" "127.0.0.1:8091" .Values.admin.enabled) }}
{{- $store := dict "memory" (dict "max_bytes" .Values.memoryStoreBytes) }}
{{- if .Values.redis.addresses }}{{ $_ := set $store "redis" (dict "addresses" .Values.redis.addresses) }}{{ end }}
{{- $config := dict "listen" $listen "store" $store "data_dir" "/var/lib/penstock" "log" (dict "format" "json") }}
{{- $_ := set $config "gateway" (dict "timeouts" (dict "drain_delay" (printf "%ds" (int .Values.drainDelaySeconds)) "drain" (printf "%ds" (int .Values.drainSeconds)))) }}
{{- if .Values.rules }}{{ $_ := set $config "rules" (dict "file" "/etc/penstock-rules") }}{{ end }}
{{- if .Values.admin.enabled }}{{ $_ := set $config "admin" (dict "tls" (dict "certificate" "/etc/penstock-tls/tls.crt" "key" "/etc/penstock-tls/tls.key")) }}{{ end }}
{{- toYaml (mergeOverwrite $config .Values.config) }}
{{- end }}
