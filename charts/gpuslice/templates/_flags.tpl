{{/*
Settings become flags: {minimumShareMib: 512} is --minimum-share-mib=512. Lists are joined by commas,
true and false are --name and --no-name, null is left out. Of (list what-the-chart-says settings
extra-args): the administrator has the last word.
*/}}
{{- define "gpuslice.flags" -}}
{{- range $name, $value := mergeOverwrite (deepCopy (index . 0)) (deepCopy (default dict (index . 1))) }}
{{- $flag := regexReplaceAll "([A-Z])" $name "-${1}" | lower }}
{{- if kindIs "invalid" $value }}
{{- else if kindIs "bool" $value }}
- {{ ternary "--" "--no-" $value }}{{ $flag }}
{{- else if kindIs "slice" $value }}
- {{ printf "--%s=%s" $flag (join "," $value) | quote }}
{{- else if kindIs "string" $value }}
- {{ printf "--%s=%s" $flag $value | quote }}
{{- else }}
{{- /* Through JSON: a template writes a million as 1e+06. */}}
- {{ printf "--%s=%s" $flag (toJson $value) | quote }}
{{- end }}
{{- end }}
{{- range index . 2 }}
- {{ . | quote }}
{{- end }}
{{- end -}}
