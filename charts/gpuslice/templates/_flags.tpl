{{/*
Settings become flags: {minimumShareMib: 512} is --minimum-share-mib=512. Lists are joined by commas,
true and false are --name and --no-name, null is left out. Of (list what-the-chart-says settings
extra-args): the administrator has the last word.
*/}}
{{- define "gpuslice.flags" -}}
{{- $flags := list -}}
{{- range $name, $value := mergeOverwrite (deepCopy (index . 0)) (deepCopy (default dict (index . 1))) -}}
{{- $flag := regexReplaceAll "([A-Z])" $name "-${1}" | lower -}}
{{- if kindIs "invalid" $value -}}
{{- else if kindIs "bool" $value -}}
{{- $flags = append $flags (printf "%s%s" (ternary "--" "--no-" $value) $flag) -}}
{{- else if kindIs "slice" $value -}}
{{- $flags = append $flags (printf "--%s=%s" $flag (join "," $value)) -}}
{{- else if kindIs "string" $value -}}
{{- $flags = append $flags (printf "--%s=%s" $flag $value) -}}
{{- else -}}
{{- /* Through JSON: a template writes a million as 1e+06. */ -}}
{{- $flags = append $flags (printf "--%s=%s" $flag (toJson $value)) -}}
{{- end -}}
{{- end -}}
{{- toYaml (concat $flags (default list (index . 2))) -}}
{{- end -}}
