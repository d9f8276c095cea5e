{{/* What is refused before anything is installed, each with the value and what to do. */}}

{{/* Values of other charts, and what to use here. The schema lets them through to this. */}}
{{- define "gpuslice.guards.moved" -}}
{{- $moved := .Files.Get "files/moved-values.yaml" | fromYaml -}}
{{- range $name, $successor := $moved.others -}}
{{- if hasKey $.Values $name -}}
{{- fail (printf "%s: no value of this chart; use %s" $name $successor) -}}
{{- end -}}
{{- end -}}
{{- range $row := (.Files.Get "files/hami-compat.yaml" | fromYaml).keys -}}
{{- $names := splitList "." $row.key -}}
{{- $foreign := first $names -}}
{{- $place := $.Values -}}
{{- if eq $foreign "scheduler" -}}
{{- $foreign = slice $names 0 2 | join "." -}}
{{- $place = $.Values.scheduler -}}
{{- end -}}
{{- if and (not (has $foreign $moved.shared)) (hasKey $place (splitList "." $foreign | last)) -}}
{{- fail (printf "%s: a value of HAMi's chart; use hamiCompat.%s, or ours of docs/values.md" $foreign $foreign) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.guards.namespace" -}}
{{- if and (eq (include "gpuslice.namespace" .) "default") (not .Values.allowDefaultNamespace) -}}
{{- fail "the namespace is `default`, where everybody may write beside privileged pods: install with --namespace gpuslice-system --create-namespace, or set allowDefaultNamespace=true" -}}
{{- end -}}
{{- end -}}

{{/* From 1.34 on claims are served unless somebody switches them off; below, the other way round. */}}
{{- define "gpuslice.guards.mode" -}}
{{- $minor := include "gpuslice.minor" . | int -}}
{{- if and (eq .Values.mode "dra") (lt $minor 34) -}}
{{- $version := .Values.resourceApiVersion -}}
{{- $least := get (dict "v1beta1" 32 "v1beta2" 33) $version | default 34 -}}
{{- if lt $minor (int $least) -}}
{{- fail (printf "mode=dra: Kubernetes 1.%d serves no claims by resourceApiVersion=%s: use mode=auto or mode=hami%s" $minor $version (ge $minor 32 | ternary ", or where its API server was told to serve resource.k8s.io say resourceApiVersion=v1beta1 (1.33: v1beta2), for whole GPUs only" "")) -}}
{{- end -}}
{{- end -}}
{{- if eq .Values.mode "dra" -}}
{{- if include "gpuslice.scheduler" . -}}
{{- fail "scheduler.enabled=true: with mode=dra no pod asks that scheduler; leave it out, or use mode=auto or mode=hami" -}}
{{- end -}}
{{- $config := .Values.deviceConfig -}}
{{- if and (not .Values.webhook.enabled) (or $config.content $config.sections $config.existingConfigMap) -}}
{{- fail "webhook.enabled=false: with mode=dra only the webhook reads the resources that deviceConfig names; set webhook.enabled=true, or leave deviceConfig empty and have pods ask by claims" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Neither a rollout nor a drained node may wait for ever. */}}
{{- define "gpuslice.guards.rollouts" -}}
{{- if and .Values.kubeletPlugin.enabled (include "gpuslice.cards" .) (include "gpuslice.agent.surges" .) -}}
{{- fail "kubeletPlugin.updateStrategy.rollingUpdate.maxSurge: kubelet knows one device plugin for a resource, so with mode auto below Kubernetes 1.36 and with mode hami it has to be 0" -}}
{{- end -}}
{{- range $name := list "webhook" "scheduler" -}}
{{- $values := get $.Values $name -}}
{{- $least := $values.podDisruptionBudget.minAvailable -}}
{{- $runs := ternary (include "gpuslice.scheduler" $) (ternary "true" "" $.Values.webhook.enabled) (eq $name "scheduler") -}}
{{- if and $runs $values.podDisruptionBudget.enabled (gt (int $values.replicas) 1) -}}
{{- if or (eq (toString $least) "100%") (and (not (kindIs "string" $least)) (ge (int $least) (int $values.replicas))) -}}
{{- fail (printf "%s.podDisruptionBudget.minAvailable=%v: with %s.replicas=%v no node of theirs could be drained; let it be less" $name $least $name $values.replicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
Who gives GPUs away, by a word in the DaemonSet's name or in an image: first the product, then its words.
These are the products that `gpuslice doctor` looks for.
*/}}
{{- define "gpuslice.guards.products" -}}
- [HAMi's device plugin, hami-device-plugin, hami-vgpu-device-plugin]
- [HAMi's DRA driver, hami-dra-driver, projecthami/k8s-dra-driver]
- [HAMi, projecthami/hami]
- [NVIDIA's DRA driver, dra-driver-nvidia-gpu, nvidia-dra-driver, k8s-dra-driver-gpu]
- [NVIDIA's MPS control daemon, mps-control-daemon]
- [NVIDIA's device plugin, nvidia-device-plugin, k8s-device-plugin]
- [GKE's device plugin, nvidia-gpu-device-plugin]
{{- end -}}

{{/* Of (list root daemonset): the product, or nothing where it is nobody's or runs on no node. */}}
{{- define "gpuslice.guards.product" -}}
{{- $root := index . 0 -}}
{{- $set := index . 1 -}}
{{- $labels := $set.metadata.labels | default dict -}}
{{- $names := list -}}
{{- $texts := list $set.metadata.name -}}
{{- range $set.spec.template.spec.containers -}}
{{- $names = append $names .name -}}
{{- $texts = append $texts (default "" .image) -}}
{{- end -}}
{{- $text := join " " $texts | lower -}}
{{- if not (dig "status" "desiredNumberScheduled" 0 $set | int) -}}
{{- else if eq (get $labels "app.kubernetes.io/name") (include "gpuslice.name" $root) -}}
{{- if not (and (eq (get $labels "app.kubernetes.io/instance") $root.Release.Name) (eq $set.metadata.namespace (include "gpuslice.namespace" $root))) -}}
another release of this chart
{{- end -}}
{{- else if contains "compute-domain" $text -}}
{{- /* The other half of NVIDIA's DRA driver gives no GPUs away. */ -}}
{{- else if and (has "compute-domains" $names) (not (has "gpus" $names)) -}}
{{- else -}}
{{- $found := "" -}}
{{- range $row := include "gpuslice.guards.products" $root | fromYamlArray -}}
{{- range $word := rest $row -}}
{{- if and (not $found) (contains $word $text) }}{{ $found = first $row }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $found -}}
{{- end -}}
{{- end -}}

{{/* Two owners count by themselves what they have given away, and give one GPU away twice. */}}
{{- define "gpuslice.guards.owners" -}}
{{- if and .Values.kubeletPlugin.enabled (not .Values.gpuResourcesEnabledOverride) -}}
{{- $owners := list -}}
{{- range $set := (lookup "apps/v1" "DaemonSet" "" "").items -}}
{{- with include "gpuslice.guards.product" (list $ $set) -}}
{{- $owners = append $owners (printf "%s (DaemonSet %s/%s)" . $set.metadata.namespace $set.metadata.name) -}}
{{- end -}}
{{- end -}}
{{- if and (include "gpuslice.claims" .) (.Capabilities.APIVersions.Has "resource.k8s.io/v1") -}}
{{- range $class, $product := dict "gpu.nvidia.com" "NVIDIA's DRA driver" "hami-core-gpu.project-hami.io" "HAMi's DRA driver" -}}
{{- with lookup "resource.k8s.io/v1" "DeviceClass" "" $class -}}
{{- if ne (dig "metadata" "labels" "app.kubernetes.io/name" "" .) (include "gpuslice.name" $) -}}
{{- $owners = append $owners (printf "%s (DeviceClass %s)" $product $class) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with $owners -}}
{{- fail (printf "another owner of GPUs is in the cluster: %s. A GPU of which two count the users is given away twice: remove it, or keep the two on different nodes (kubeletPlugin.nodeSelector) and set gpuResourcesEnabledOverride=true" (join ", " .)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "gpuslice.guards" -}}
{{- include "gpuslice.guards.moved" . -}}
{{- include "gpuslice.guards.namespace" . -}}
{{- include "gpuslice.guards.mode" . -}}
{{- include "gpuslice.guards.rollouts" . -}}
{{- include "gpuslice.guards.owners" . -}}
{{- end -}}
