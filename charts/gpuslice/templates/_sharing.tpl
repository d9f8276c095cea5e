{{/* What decides how nodes are served, and HAMi's device-config.yaml that all programs read. */}}

{{/*
`true` where node agents may serve as device plugins: in their pods with the mounts, in RBAC with the
rights. From Kubernetes 1.36 on that takes a scheduler that is asked for.
*/}}
{{- define "gpuslice.cards" -}}
{{- if and (ne .Values.mode "dra") (or (include "gpuslice.older" .) (include "gpuslice.scheduler" .)) }}true{{ end -}}
{{- end -}}

{{/* The agents' --mode: what only one way is installed for need not be asked of the server. */}}
{{- define "gpuslice.nodeMode" -}}
{{- if not (include "gpuslice.cards" .) }}dra
{{- else if not (include "gpuslice.claims" .) }}device-plugin
{{- else }}auto
{{- end -}}
{{- end -}}

{{/* What differs in the section `nvidia` by sharing.*, as YAML. Only device plugins scale anything. */}}
{{- define "gpuslice.sharingSection" -}}
{{- $said := dict -}}
{{- $usual := dict "splitCount" 10 "memoryScaling" 1 "coreScaling" 1 -}}
{{- $names := dict "splitCount" "deviceSplitCount" -}}
{{- if include "gpuslice.cards" . -}}
{{- $names = merge $names (dict "memoryScaling" "deviceMemoryScaling" "coreScaling" "deviceCoreScaling") -}}
{{- end -}}
{{- range $key, $name := $names -}}
{{- $value := get $.Values.sharing $key -}}
{{- if ne (toJson $value) (get $usual $key | toJson) }}{{ $_ := set $said $name $value }}{{ end -}}
{{- end -}}
{{- toYaml $said -}}
{{- end -}}

{{/*
The text of device-config.yaml, empty where the programs' own defaults say the same. HAMi takes what a
file leaves out for zero, so `sections` are merged over a whole section of NVIDIA.
*/}}
{{- define "gpuslice.deviceConfigText" -}}
{{- $config := .Values.deviceConfig -}}
{{- $sharing := include "gpuslice.sharingSection" . | fromYaml -}}
{{- if and $config.content (or $config.sections $config.existingConfigMap) -}}
{{- fail "deviceConfig: one of content, sections and existingConfigMap" -}}
{{- else if and $config.sections $config.existingConfigMap -}}
{{- fail "deviceConfig: one of sections and existingConfigMap" -}}
{{- end -}}
{{- if and $sharing (or $config.content $config.existingConfigMap) -}}
{{- fail "sharing: a device-config.yaml of yours says deviceSplitCount, deviceMemoryScaling and deviceCoreScaling itself (section nvidia); leave sharing.* as it is, or use deviceConfig.sections" -}}
{{- end -}}
{{- if $config.content -}}
{{- if kindIs "string" $config.content -}}
{{- with (fromYaml $config.content).Error }}{{ fail (printf "deviceConfig.content: no YAML of sections: %s" .) }}{{ end -}}
{{- $config.content -}}
{{- else }}{{ toYaml $config.content }}{{ end -}}
{{- else if $config.existingConfigMap -}}
{{- else if or $config.sections $sharing (include "gpuslice.cards" .) -}}
{{- $default := .Files.Get "files/device-config.yaml" | fromYaml -}}
{{- toYaml (mergeOverwrite $default (dict "nvidia" $sharing) (deepCopy $config.sections)) -}}
{{- end -}}
{{- end -}}

{{/* The name of the ConfigMap with device-config.yaml, empty without one. */}}
{{- define "gpuslice.deviceConfigMap" -}}
{{- if .Values.deviceConfig.existingConfigMap }}{{ .Values.deviceConfig.existingConfigMap }}
{{- else if include "gpuslice.deviceConfigText" . }}{{ include "gpuslice.fullname" . }}-device-config
{{- end -}}
{{- end -}}

{{/*
What device-config.yaml says, as JSON; {} without one. A ConfigMap of the administrator's is read where
helm speaks to a cluster that has it, and unknown elsewhere: then `resourceDomains` says what counts.
*/}}
{{- define "gpuslice.deviceConfig" -}}
{{- $text := include "gpuslice.deviceConfigText" . -}}
{{- with .Values.deviceConfig.existingConfigMap -}}
{{- $text = dig "data" "device-config.yaml" "" (lookup "v1" "ConfigMap" (include "gpuslice.namespace" $) .) -}}
{{- end -}}
{{- $found := fromYaml $text -}}
{{- with $found.Error -}}
{{- fail (printf "deviceConfig: device-config.yaml is no YAML: %s" .) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The same, or what the programs take without one. */}}
{{- define "gpuslice.deviceSections" -}}
{{- $found := include "gpuslice.deviceConfig" . | fromJson -}}
{{- $found | default (.Files.Get "files/device-config.yaml" | fromYaml) | toJson -}}
{{- end -}}

{{/* Of what device-config.yaml says, not of how: both helms write it, each in its own way. */}}
{{- define "gpuslice.deviceConfigChecksum" -}}
{{- include "gpuslice.deviceConfig" . | printf "%s %s" (include "gpuslice.deviceConfigMap" .) | sha256sum -}}
{{- end -}}

{{/* The version of resource.k8s.io in which objects are written; servers below 1.34 have to be told of one. */}}
{{- define "gpuslice.resourceVersion" -}}
{{- ternary "v1" .Values.resourceApiVersion (eq .Values.resourceApiVersion "auto") -}}
{{- end -}}
