{{/* Parts of the node agent's pods. */}}

{{- define "gpuslice.agent.pluginDirectory" -}}
{{ .Values.kubeletRoot | trimSuffix "/" }}/plugins/gpuslice.io
{{- end -}}

{{/* Refuse what would have no effect. */}}
{{- define "gpuslice.agent.checks" -}}
{{- if eq .Values.mode "dra" -}}
{{- range list "memoryScaling" "coreScaling" -}}
{{- if ne (toJson (get $.Values.sharing .)) "1" -}}
{{- fail (printf "sharing.%s: claims are for memory and cores that there are; it acts with mode auto or hami" .) -}}
{{- end -}}
{{- end -}}
{{- if or .Values.nodeConfiguration.config .Values.nodeConfiguration.externalConfigName -}}
{{- fail "nodeConfiguration: nodes that serve claims do not read it; it acts with mode auto or hami" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Whether the regions of HAMi's layout are used. */}}
{{- define "gpuslice.agent.hamiLayout" -}}
{{- if and (include "gpuslice.cards" .) (eq (toString .Values.kubeletPlugin.settings.hamiLayout) "true") }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.agent.regions" -}}
{{ default "/usr/local" .Values.kubeletPlugin.settings.hookPath | trimSuffix "/" }}/vgpu/containers
{{- end -}}

{{/* The monitor reads processes of the host and kubelet's pod-resources. */}}
{{- define "gpuslice.agent.monitor" -}}
{{- if ne (toString .Values.kubeletPlugin.settings.monitor) "false" }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.agent.port" -}}
{{- default 51515 .Values.kubeletPlugin.settings.probePort | int -}}
{{- end -}}

{{- define "gpuslice.agent.library" -}}
{{- if .Values.library.image.repository }}true{{ end -}}
{{- end -}}

{{/* `true` where agents ask the extender for other devices. */}}
{{- define "gpuslice.agent.refit" -}}
{{- if and (include "gpuslice.cards" .) (include "gpuslice.refit" .) }}true{{ end -}}
{{- end -}}

{{/* The ConfigMap with device-config.yaml; who serves claims alone does not read it. */}}
{{- define "gpuslice.agent.deviceConfig" -}}
{{- if include "gpuslice.cards" . }}{{ include "gpuslice.deviceConfigMap" . }}{{ end -}}
{{- end -}}

{{/* config.json as text, empty without one. */}}
{{- define "gpuslice.agent.nodeConfigText" -}}
{{- $config := .Values.nodeConfiguration.config -}}
{{- if not (include "gpuslice.cards" .) -}}
{{- else if kindIs "string" $config -}}
{{- with (fromJson $config).Error }}{{ if $config }}{{ fail (printf "nodeConfiguration.config: no JSON: %s" .) }}{{ end }}{{ end -}}
{{- $config -}}
{{- else if $config }}{{ toPrettyJson $config }}
{{- end -}}
{{- end -}}

{{- define "gpuslice.agent.externalNodeConfig" -}}
{{- if include "gpuslice.cards" . }}{{ .Values.nodeConfiguration.externalConfigName }}{{ end -}}
{{- end -}}

{{/* Of what agents read, so that a change replaces them; of a ConfigMap of yours its name alone. */}}
{{- define "gpuslice.agent.checksums" -}}
{{- if include "gpuslice.agent.deviceConfig" . }}
checksum/device-config: {{ include "gpuslice.deviceConfigChecksum" . }}
{{- end }}
{{- $external := include "gpuslice.agent.externalNodeConfig" . }}
{{- $own := include "gpuslice.agent.nodeConfigText" . }}
{{- if or $external $own }}
checksum/node-config: {{ printf "%s\n%s" $external $own | sha256sum }}
{{- end }}
{{- end -}}

{{/* What the chart says of the program's settings, as YAML. */}}
{{- define "gpuslice.agent.settings" -}}
mode: {{ include "gpuslice.nodeMode" . }}
hostRoot: /host
kubeletRoot: {{ toJson .Values.kubeletRoot }}
cdiDirectory: {{ toJson .Values.cdiRoot }}
nvidiaDriverRoot: {{ toJson .Values.nvidiaDriverRoot }}
{{- if include "gpuslice.claims" . }}
resourceApiVersion: {{ toJson .Values.resourceApiVersion }}
sharesPerGpu: {{ toJson .Values.sharing.splitCount }}
{{- end }}
{{- if include "gpuslice.agent.library" . }}
hamiCoreLibrary: {{ include "gpuslice.agent.pluginDirectory" . }}/libraries/libvgpu.so
{{- end }}
{{- with .Values.webhook.settings.uncontrolledNamespaces }}
unlimitedNamespaces: {{ toJson . }}
{{- end }}
{{- if include "gpuslice.agent.deviceConfig" . }}
deviceConfig: /etc/gpuslice/device-config/device-config.yaml
{{- end }}
{{- if include "gpuslice.agent.nodeConfigText" . }}
nodeConfig: /etc/gpuslice/node-config/config.json
{{- end }}
{{- if include "gpuslice.agent.externalNodeConfig" . }}
externalNodeConfig: /etc/gpuslice/external-node-config/config.json
{{- end }}
{{- if include "gpuslice.agent.refit" . }}
refitEndpoint: {{ include "gpuslice.refitEndpoint" . }}
refitCaFile: /etc/gpuslice/refit/ca.crt
{{- end }}
{{- end -}}

{{/*
Two instances serve side by side while one takes over from the other, which kubelet knows since 1.33 and
only claims allow: kubelet takes one device plugin for a resource. Kubelets may be three minors older
than the API server, whose version is all that is known here.
*/}}
{{- define "gpuslice.agent.updateStrategy" -}}
{{- if .Values.kubeletPlugin.updateStrategy -}}
{{- toYaml .Values.kubeletPlugin.updateStrategy -}}
{{- else if and (include "gpuslice.since" (list . 36)) (not (include "gpuslice.cards" .)) -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 1
  maxUnavailable: 0
{{- else -}}
type: RollingUpdate
rollingUpdate:
  maxSurge: 0
  maxUnavailable: 1
{{- end -}}
{{- end -}}

{{/* `true` where two instances may run on a node, whose sockets then have the names of their pods. */}}
{{- define "gpuslice.agent.surges" -}}
{{- $rolling := (include "gpuslice.agent.updateStrategy" . | fromYaml).rollingUpdate | default dict -}}
{{- if not (has (get $rolling "maxSurge" | default 0 | toString) (list "0" "0%")) }}true{{ end -}}
{{- end -}}

{{/*
Where GPUs are, as terms of which one has to fit. Each stands twice if the GPU Operator's label is
looked at: it has to be `true` or absent, which one expression cannot say.
*/}}
{{- define "gpuslice.agent.affinity" -}}
{{- $affinity := deepCopy .Values.kubeletPlugin.affinity -}}
{{- $node := get $affinity "nodeAffinity" | default dict -}}
{{- $required := get $node "requiredDuringSchedulingIgnoredDuringExecution" | default dict -}}
{{- $terms := get $required "nodeSelectorTerms" | default list -}}
{{- if not $affinity -}}
{{- range $key, $value := dict "feature.node.kubernetes.io/pci-10de.present" "true" "feature.node.kubernetes.io/pci-0302_10de.present" "true" "feature.node.kubernetes.io/pci-0300_10de.present" "true" "feature.node.kubernetes.io/cpu-model.vendor_id" "NVIDIA" "nvidia.com/gpu.present" "true" "gpu" "on" -}}
{{- $term := dict "matchExpressions" (list (dict "key" $key "operator" "In" "values" (list $value))) -}}
{{- $terms = append $terms $term -}}
{{- end -}}
{{- end -}}
{{- if .Values.kubeletPlugin.operatorClientLabel -}}
{{- $client := "nvidia.com/gpu.deploy.client" -}}
{{- $both := list -}}
{{- range $term := $terms | default (list dict) -}}
{{- $said := get $term "matchExpressions" | default list -}}
{{- range $expression := list (dict "key" $client "operator" "In" "values" (list "true")) (dict "key" $client "operator" "DoesNotExist") -}}
{{- $both = append $both (merge (dict "matchExpressions" (append $said $expression)) $term) -}}
{{- end -}}
{{- end -}}
{{- $terms = $both -}}
{{- end -}}
{{- if $terms -}}
{{- $_ := set $required "nodeSelectorTerms" $terms -}}
{{- $_ := set $node "requiredDuringSchedulingIgnoredDuringExecution" $required -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{- end -}}
{{- toYaml $affinity -}}
{{- end -}}
