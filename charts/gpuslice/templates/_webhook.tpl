{{/* What the templates of the webhook share. */}}

{{- define "gpuslice.webhook.fullname" -}}
{{- include "gpuslice.fullname" . -}}-webhook
{{- end -}}

{{/* Of the Secret with the certificate. */}}
{{- define "gpuslice.webhook.secret" -}}
{{- $tls := .Values.webhook.tls -}}
{{- if eq $tls.mode "secret" -}}
{{- required "webhook.tls.secret.name: name your Secret with tls.crt, tls.key and ca.crt" $tls.secret.name -}}
{{- else -}}
{{- default (printf "%s-tls" (include "gpuslice.webhook.fullname" .)) .Values.webhook.settings.tlsSecret -}}
{{- end -}}
{{- end -}}

{{/* `true` where the program writes into the configurations whom the API server shall trust. */}}
{{- define "gpuslice.webhook.writesBundle" -}}
{{- $tls := .Values.webhook.tls -}}
{{- if eq $tls.mode "self-made" }}true
{{- else if and (eq $tls.mode "secret") (not $tls.secret.caBundle) }}true
{{- end -}}
{{- end -}}

{{/* What device-config.yaml says of devices that the webhook serves, as JSON. */}}
{{- define "gpuslice.webhook.deviceConfig" -}}
{{- $found := include "gpuslice.deviceConfig" . | fromJson -}}
{{- $settings := .Values.webhook.settings -}}
{{- if not $settings.enableAscend }}{{ $found = omit $found "vnpus" }}{{ end -}}
{{- if not $settings.enableIluvatar }}{{ $found = omit $found "iluvatars" }}{{ end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The domains of all resources that are asked for in pods, as a JSON list. */}}
{{- define "gpuslice.webhook.domains" -}}
{{- $config := include "gpuslice.webhook.deviceConfig" . -}}
{{- $domains := ternary (list) (list "nvidia.com") (eq $config "{}" | not) -}}
{{- range regexFindAll ":\"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/[^\"/]+\"" $config -1 -}}
{{- $domains = append $domains (trimPrefix ":\"" . | splitList "/" | first) -}}
{{- end -}}
{{- concat $domains .Values.webhook.resourceDomains | uniq | sortAlpha | toJson -}}
{{- end -}}

{{/* `true` where containers that ask for nothing are changed as well. */}}
{{- define "gpuslice.webhook.changesAll" -}}
{{- include "gpuslice.webhook.deviceConfig" . | regexMatch "\"overwriteEnv\":(true|\"true\")" | ternary "true" "" -}}
{{- end -}}

{{/* The DeviceClasses that give devices of ours, as a JSON list. */}}
{{- define "gpuslice.webhook.classes" -}}
{{- concat (list "gpu.gpuslice.io" "share.gpuslice.io" "mig.gpuslice.io") (keys .Values.deviceClasses.extra | sortAlpha) (include "gpuslice.webhook.furtherClasses" . | fromJsonArray) | uniq | toJson -}}
{{- end -}}

{{/* Those that were named by a setting of the program alone. */}}
{{- define "gpuslice.webhook.furtherClasses" -}}
{{- $named := default (list) .Values.webhook.settings.deviceClasses -}}
{{- kindIs "string" $named | ternary (splitList "," (toString $named)) $named | toJson -}}
{{- end -}}

{{/* Namespaces that are always exempt, and those of the administrator. */}}
{{- define "gpuslice.webhook.exempt" -}}
{{- concat (list "kube-system" (include "gpuslice.namespace" .)) .Values.webhook.exemptNamespaces | uniq | toJson -}}
{{- end -}}

{{/* Of (list root path): how the API server reaches the webhook. */}}
{{- define "gpuslice.webhook.client" -}}
{{- $root := index . 0 -}}
{{- $webhook := $root.Values.webhook -}}
{{- if $webhook.customUrl -}}
url: {{ printf "%s%s" (trimSuffix "/" $webhook.customUrl) (index . 1) | quote }}
{{- else -}}
service:
  namespace: {{ include "gpuslice.namespace" $root }}
  name: {{ include "gpuslice.webhook.fullname" $root }}
  path: {{ index . 1 }}
  port: {{ $webhook.service.port }}
{{- end }}
{{- if and (eq $webhook.tls.mode "secret") $webhook.tls.secret.caBundle }}
caBundle: {{ $webhook.tls.secret.caBundle | quote }}
{{- end }}
{{- end -}}

{{/* Which namespaces are asked about; what the administrator says only adds to it. */}}
{{- define "gpuslice.webhook.selectors" -}}
{{- $webhook := .Values.webhook -}}
namespaceSelector:
  matchExpressions:
  - key: kubernetes.io/metadata.name
    operator: NotIn
    values: {{ include "gpuslice.webhook.exempt" . | replace "," ", " }}
  - key: gpuslice.io/webhook
    operator: NotIn
    values: ["ignore"]
  - key: hami.io/webhook
    operator: NotIn
    values: ["ignore"]
  {{- with $webhook.namespaceSelector.matchExpressions }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with $webhook.namespaceSelector.matchLabels }}
  matchLabels:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Of (list root has-conditions): Fail holds up other pods where no condition keeps them away. */}}
{{- define "gpuslice.webhook.failurePolicy" -}}
{{- default (ternary "Fail" "Ignore" (index . 1)) (index . 0).Values.webhook.failurePolicy -}}
{{- end -}}

{{/* What all four end with. */}}
{{- define "gpuslice.webhook.manners" -}}
matchPolicy: Equivalent
sideEffects: None
timeoutSeconds: {{ .Values.webhook.timeoutSeconds }}
admissionReviewVersions: ["v1"]
{{- end -}}

{{/* In a condition: requests at the path that follows name a class of ours. */}}
{{- define "gpuslice.webhook.asksForOurs" -}}
exists(each,
  ([each.{{ if ne (include "gpuslice.resourceVersion" .) "v1beta1" }}?exactly.{{ end }}?deviceClassName.orValue("")]
    + each.?firstAvailable.orValue([]).map(option, option.?deviceClassName.orValue(""))
  ).exists(name, name in {{ include "gpuslice.webhook.classes" . | fromJsonArray | toJson | replace "," ", " }}))
{{- end -}}

{{/* What a ResourceQuota limits GPUs by, as a list of CEL. */}}
{{- define "gpuslice.webhook.quotaKeys" -}}
{{- $nvidia := dict "resourceCountName" "nvidia.com/gpu" "resourceMemoryName" "nvidia.com/gpumem" "resourceCoreName" "nvidia.com/gpucores" -}}
{{- $config := include "gpuslice.webhook.deviceConfig" . | fromJson -}}
{{- if $config }}{{ $nvidia = default dict $config.nvidia }}{{ end -}}
{{- $keys := list -}}
{{- range $prefix := list "limits" "requests" -}}
{{- range $field := list "resourceCountName" "resourceMemoryName" "resourceCoreName" -}}
{{- with get $nvidia $field }}{{ $keys = append $keys (printf "%s.%s" $prefix .) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $keys | replace "," ", " -}}
{{- end -}}

{{/* The annotations of Ascend chips that HAMi's default does not have, each followed by a comma. */}}
{{- define "gpuslice.webhook.chipKeys" -}}
{{- $known := list "Ascend310P" "Ascend910A" "Ascend910B2" "Ascend910B3" "Ascend910B4" "Ascend910B4-1" "Ascend910C" -}}
{{- $chips := (include "gpuslice.webhook.deviceConfig" . | fromJson).vnpus -}}
{{- range (default dict $chips).configs -}}
{{- if not (has .commonWord $known) }}{{ printf "huawei.com/%s" .commonWord | toJson }}, {{ end -}}
{{- end -}}
{{- end -}}
