{{/* Read what HAMi's words say into our values. Included first by every template; may be repeated. */}}
{{- define "gpuslice.prepare" -}}
{{- end -}}
