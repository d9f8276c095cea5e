{{/*
Of (list root port): annotations by which a Prometheus without the operator finds the metrics of a pod;
nothing with metrics.scrapeAnnotations=false.
*/}}
{{- define "gpuslice.scrape" -}}
{{- if (index . 0).Values.metrics.scrapeAnnotations -}}
prometheus.io/scrape: "true"
prometheus.io/port: {{ index . 1 | toString | quote }}
prometheus.io/path: /metrics
{{- end -}}
{{- end -}}

{{/* Of (list root component): `true` where the chart installs that component. */}}
{{- define "gpuslice.monitored" -}}
{{- $root := index . 0 -}}
{{- if eq (index . 1) "node-agent" -}}
{{- if $root.Values.kubeletPlugin.enabled }}true{{ end -}}
{{- else if eq (index . 1) "webhook" -}}
{{- if $root.Values.webhook.enabled }}true{{ end -}}
{{- else -}}
{{- include "gpuslice.scheduler" $root -}}
{{- end -}}
{{- end -}}
