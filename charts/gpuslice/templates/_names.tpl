{{/* Names, labels and what is asked of the cluster. Every template begins with `gpuslice.prepare`. */}}

{{- define "gpuslice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* Forty characters leave room for what follows: the names of a Service end at 63. */}}
{{- define "gpuslice.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "gpuslice.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gpuslice.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Of (list root component): node-agent, webhook or scheduler. */}}
{{- define "gpuslice.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpuslice.name" (index . 0) }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "gpuslice.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{ include "gpuslice.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
{{- with $root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The lines below `metadata:` but for the name: (list root component [namespaced]). */}}
{{- define "gpuslice.metadata" -}}
{{- $root := index . 0 -}}
{{- if and (gt (len .) 2) (index . 2) }}
namespace: {{ include "gpuslice.namespace" $root }}
{{- end }}
labels:
  {{- include "gpuslice.labels" . | nindent 2 }}
{{- with $root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Of (list root component): the name of its ServiceAccount. */}}
{{- define "gpuslice.serviceAccount" -}}
{{- $root := index . 0 -}}
{{- $key := get (dict "node-agent" "kubeletPlugin" "webhook" "webhook" "scheduler" "scheduler") (index . 1) -}}
{{- $account := (get $root.Values $key).serviceAccount -}}
{{- $own := printf "%s-%s" (include "gpuslice.fullname" $root) (index . 1) -}}
{{- ternary (default $own $account.name) (default "default" $account.name) $account.create -}}
{{- end -}}

{{/* Of (list root component): the user that the API server sees. */}}
{{- define "gpuslice.user" -}}
system:serviceaccount:{{ include "gpuslice.namespace" (index . 0) }}:{{ include "gpuslice.serviceAccount" . }}
{{- end -}}

{{/* Of (list image default-tag): [registry/]repository[:tag][@digest]. */}}
{{- define "gpuslice.image" -}}
{{- $image := index . 0 -}}
{{- with $image.registry }}{{ . }}/{{ end -}}
{{- $image.repository -}}
{{- with default (index . 1) $image.tag }}:{{ . }}{{ end -}}
{{- with $image.digest }}@{{ . }}{{ end -}}
{{- end -}}

{{/* The cluster's minor as a number; vendors write it `29+`, and their versions have suffixes. */}}
{{- define "gpuslice.minor" -}}
{{- .Capabilities.KubeVersion.Version | trimPrefix "v" | regexFind "^[0-9]+\\.[0-9]+" | splitList "." | last -}}
{{- end -}}

{{/* Of (list root minor): `true` from that minor on, else empty. */}}
{{- define "gpuslice.since" -}}
{{- if ge (include "gpuslice.minor" (index . 0) | int) (int (index . 1)) }}true{{ end -}}
{{- end -}}

{{/* `true` where pods may be served by claims. v1 of the API is served from 1.34 on. */}}
{{- define "gpuslice.claims" -}}
{{- if eq .Values.mode "dra" }}true
{{- else if and (eq .Values.mode "auto") (include "gpuslice.since" (list . 34)) }}true
{{- end -}}
{{- end -}}

{{/* `true` where HAMi's protocol may be spoken: agents as device plugins, and the extender. */}}
{{- define "gpuslice.older" -}}
{{- if eq .Values.mode "hami" }}true
{{- else if and (eq .Values.mode "auto") (not (include "gpuslice.since" (list . 36))) }}true
{{- end -}}
{{- end -}}

{{/* `true` where kube-scheduler and the extender are installed. */}}
{{- define "gpuslice.scheduler" -}}
{{- if kindIs "bool" .Values.scheduler.enabled -}}
{{- if .Values.scheduler.enabled }}true{{ end -}}
{{- else -}}
{{- include "gpuslice.older" . -}}
{{- end -}}
{{- end -}}

{{/* `true` where ValidatingAdmissionPolicies and conditions of webhooks are served (1.30). */}}
{{- define "gpuslice.conditions" -}}
{{- include "gpuslice.since" (list . 30) -}}
{{- end -}}
