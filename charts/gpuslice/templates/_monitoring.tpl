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
