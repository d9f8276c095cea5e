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

{{/*
The lines below `metadata:` but for the name, of (list root component [namespaced [more]]). `more` has
labels and annotations, which go before those of all objects, and may have another namespace.
*/}}
{{- define "gpuslice.metadata" -}}
{{- $root := index . 0 -}}
{{- $more := ternary (last .) dict (gt (len .) 3) -}}
{{- if and (gt (len .) 2) (index . 2) -}}
namespace: {{ default (include "gpuslice.namespace" $root) $more.namespace }}
{{ end -}}
labels:
  helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
  {{- include "gpuslice.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ $root.Release.Service }}
  {{- with merge (dict) (default dict $more.labels) $root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (default dict $more.annotations) $root.Values.commonAnnotations }}
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

{{/* Of (list root component kind name): what a binding says but for its metadata. */}}
{{- define "gpuslice.binds" -}}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 2 }}
  name: {{ index . 3 }}
subjects:
- kind: ServiceAccount
  name: {{ include "gpuslice.serviceAccount" . }}
  namespace: {{ include "gpuslice.namespace" (index . 0) }}
{{- end -}}

{{/* Of (list root component): the user that the API server sees. */}}
{{- define "gpuslice.user" -}}
system:serviceaccount:{{ include "gpuslice.namespace" (index . 0) }}:{{ include "gpuslice.serviceAccount" . }}
{{- end -}}

{{/*
The lines below `metadata:` of pods, of (list root component its-values port more): `more` are annotations
of the chart. What the administrator says of the pods goes before the rest.
*/}}
{{- define "gpuslice.podMetadata" -}}
{{- $root := index . 0 -}}
{{- $values := index . 2 -}}
labels:
  {{- include "gpuslice.selectorLabels" . | nindent 2 }}
  {{- with merge (dict) $values.podLabels $root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $scrape := include "gpuslice.scrape" (list $root (index . 3)) | fromYaml }}
{{- with merge (dict) (index . 4) $values.podAnnotations $root.Values.commonAnnotations $scrape }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
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

{{/* Of (list root component its-values): the `spec` of a PodDisruptionBudget. */}}
{{- define "gpuslice.budget" -}}
minAvailable: {{ toJson (index . 2).podDisruptionBudget.minAvailable }}
{{- if include "gpuslice.since" (list (index . 0) 27) }}
# A replica that is not ready anyway does not keep its node.
unhealthyPodEvictionPolicy: AlwaysAllow
{{- end }}
selector:
  matchLabels:
    {{- include "gpuslice.selectorLabels" . | nindent 4 }}
{{- end -}}
