{{/* kube-scheduler with the extender beside it, and what node agents need to ask that for other devices. */}}

{{/* What the extender's flags say, as JSON: our words first, then the administrator's. */}}
{{- define "gpuslice.extenderSaid" -}}
{{- $namespace := include "gpuslice.namespace" . -}}
{{- $elects := and .Values.scheduler.leaderElect .Values.scheduler.kubeScheduler.enabled -}}
{{- $said := dict "schedulerName" .Values.scheduler.name "leaderElect" $elects -}}
{{- if $elects -}}
{{- $said = merge $said (dict "leaderElectResourceName" .Values.scheduler.name "leaderElectResourceNamespace" $namespace) -}}
{{- end -}}
{{- if not .Values.scheduler.kubeScheduler.enabled -}}
{{- $_ := set $said "address" "0.0.0.0" -}}
{{- end -}}
{{- if include "gpuslice.deviceConfigMap" . -}}
{{- $_ := set $said "deviceConfig" "/etc/gpuslice/device-config/device-config.yaml" -}}
{{- end -}}
{{- if .Values.scheduler.refit.enabled -}}
{{- $_ := set $said "refitAccounts" (prepend .Values.scheduler.refit.accounts (include "gpuslice.user" (list . "node-agent"))) -}}
{{- end -}}
{{- toJson $said -}}
{{- end -}}

{{/* What the extender then works with, as JSON: the program's defaults below what was said. */}}
{{- define "gpuslice.extenderSettings" -}}
{{- $defaults := dict "port" 9444 "metricsPort" 9395 "refitPort" 9445 "httpTimeoutS" 30 -}}
{{- $said := mergeOverwrite (include "gpuslice.extenderSaid" . | fromJson) (deepCopy .Values.scheduler.settings) -}}
{{- range $name, $value := $said -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $defaults $name $value -}}
{{- end -}}
{{- end -}}
{{- toJson $defaults -}}
{{- end -}}

{{/*
The keys with names of resources, by section: those that nodes have, which kube-scheduler counts, and
those that mean something to the extender alone.
*/}}
{{- define "gpuslice.resourceKeys" -}}
nvidia:
  counted: [resourceCountName]
  ignored: [resourceMemoryName, resourceMemoryPercentageName, resourceCoreName, resourcePriorityName]
cambricon:
  counted: [resourceCountName, resourceMemoryName, resourceCoreName]
hygon:
  counted: [resourceCountName]
  ignored: [resourceMemoryName, resourceCoreName]
metax:
  counted: [resourceCountName, resourceVCountName]
  ignored: [resourceVMemoryName, resourceVCoreName]
enflame:
  counted: [resourceNameGCU, resourceNameDRSGCU, resourceNameVGCU]
  ignored: [resourceNameGCUMemory, resourceNameGCUCore]
mthreads:
  counted: [resourceCountName, resourceMemoryName, resourceCoreName]
iluvatars:
  counted: [resourceCountName]
  ignored: [resourceMemoryName, resourceCoreName]
kunlun:
  counted: [resourceCountName, resourceVCountName]
  ignored: [resourceVMemoryName]
awsneuron:
  counted: [resourceCountName, resourceCoreName]
amd:
  counted: [resourceCountName]
  ignored: [resourceMemoryName, resourceCoreName]
vastai:
  counted: [resourceCountName]
biren:
  counted: [resourceCountName]
vnpus:
  counted: [resourceName]
  ignored: [resourceMemoryName, resourceCoreName]
{{- end -}}

{{/* Of (list root counted|ignored): the names of resources that the extender serves, as a JSON list. */}}
{{- define "gpuslice.resourceNames" -}}
{{- $root := index . 0 -}}
{{- $which := index . 1 -}}
{{- $sections := include "gpuslice.deviceSections" $root | fromJson -}}
{{- $settings := $root.Values.scheduler.settings -}}
{{- $names := list -}}
{{- range $section, $keys := include "gpuslice.resourceKeys" $root | fromYaml -}}
{{- $said := get $sections $section -}}
{{- if and (eq $section "vnpus") (kindIs "map" $said) -}}
{{- $said = $said.configs -}}
{{- end -}}
{{- if or (and (eq $section "vnpus") (not $settings.enableAscend)) (and (eq $section "iluvatars") (not $settings.enableIluvatar)) -}}
{{- $said = list -}}
{{- end -}}
{{- range $entry := ternary $said (list $said) (kindIs "slice" $said) -}}
{{- range $key := default list (get $keys $which) -}}
{{- with get (default dict $entry) $key -}}
{{- if not (and (eq $key "resourceNameVGCU") $entry.resourceNameDRSGCU) -}}
{{- $names = append $names . -}}
{{- end -}}
{{- /* Hygon's devices were renamed; the extender serves manifests of both times. */ -}}
{{- if and (eq $section "hygon") (contains "dcu" (toString $entry.resourceCountName)) (contains "dcu" .) (not (contains "hcu" (toString $entry.resourceCountName))) -}}
{{- $names = append $names (replace "dcu" "hcu" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* What kube-scheduler is configured with. */}}
{{- define "gpuslice.schedulerConfig" -}}
{{- $settings := include "gpuslice.extenderSettings" . | fromJson -}}
{{- $own := .Values.scheduler.kubeScheduler.enabled -}}
{{- $host := printf "%s-scheduler.%s.svc" (include "gpuslice.fullname" .) (include "gpuslice.namespace" .) -}}
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  {{- if and $own $settings.leaderElect }}
  leaderElect: true
  resourceName: {{ $settings.leaderElectResourceName | quote }}
  resourceNamespace: {{ $settings.leaderElectResourceNamespace | quote }}
  {{- else }}
  leaderElect: false
  {{- end }}
profiles:
- schedulerName: {{ $settings.schedulerName | quote }}
extenders:
- urlPrefix: http://{{ ternary "127.0.0.1" $host $own }}:{{ int $settings.port }}
  filterVerb: filter
  bindVerb: bind
  nodeCacheCapable: true
  ignorable: false
  httpTimeout: {{ $settings.httpTimeoutS }}s
  weight: 1
  managedResources:
  # kubelet counts these, and so does kube-scheduler: pods of other schedulers take of them.
  {{- range include "gpuslice.resourceNames" (list . "counted") | fromJsonArray }}
  - name: {{ . | quote }}
    ignoredByScheduler: false
  {{- end }}
  # No node has these; they mean something to the extender alone.
  {{- range include "gpuslice.resourceNames" (list . "ignored") | fromJsonArray }}
  - name: {{ . | quote }}
    ignoredByScheduler: true
  {{- end }}
{{- end -}}

{{/* The same as text, with what the administrator adds. */}}
{{- define "gpuslice.schedulerConfigText" -}}
{{- $text := include "gpuslice.schedulerConfig" . -}}
{{- with .Values.scheduler.kubeScheduler.config -}}
{{- mergeOverwrite (fromYaml $text) (deepCopy .) | toYaml -}}
{{- else -}}
{{- $text -}}
{{- end -}}
{{- end -}}

{{/* kube-scheduler's image: what is said, else that of the cluster's own where its pods can be seen. */}}
{{- define "gpuslice.kubeSchedulerImage" -}}
{{- $image := deepCopy .Values.scheduler.kubeScheduler.image -}}
{{- /* Vendors' suffixes are of no image: v1.31.2+k3s1, v1.29.11-eks-56e63d8. */ -}}
{{- $tag := printf "v%s" (regexFind "[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) -}}
{{- if $image.repository -}}
{{- include "gpuslice.image" (list $image $tag) -}}
{{- else if $image.registry -}}
{{- include "gpuslice.image" (list (set $image "repository" "kube-scheduler") $tag) -}}
{{- else -}}
{{- $seen := "" -}}
{{- range (lookup "v1" "Pod" "kube-system" "").items -}}
{{- if eq (dig "labels" "component" "" .metadata) "kube-scheduler" -}}
{{- $seen = (index .spec.containers 0).image -}}
{{- end -}}
{{- end -}}
{{- if not $seen -}}
{{- fail (printf "set scheduler.kubeScheduler.image.repository: no pod of the cluster's own kube-scheduler was seen in kube-system, whose image (usually with the tag %s) would be used. Or set scheduler.kubeScheduler.enabled=false and have a kube-scheduler of yours ask the extender" $tag) -}}
{{- end -}}
{{- if or $image.tag $image.digest -}}
{{- $repository := regexReplaceAll "(:[^/:@]*)?(@.*)?$" $seen "" -}}
{{- include "gpuslice.image" (list (set $image "repository" $repository) $tag) -}}
{{- else -}}
{{- $seen -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuse what cannot work. */}}
{{- define "gpuslice.schedulerCheck" -}}
{{- $settings := include "gpuslice.extenderSettings" . | fromJson -}}
{{- if gt (int .Values.scheduler.replicas) 1 -}}
{{- if not .Values.scheduler.kubeScheduler.enabled -}}
{{- fail "scheduler.replicas must be 1 with scheduler.kubeScheduler.enabled=false: replicas are told apart by the kube-scheduler beside them" -}}
{{- else if not $settings.leaderElect -}}
{{- fail "scheduler.replicas above 1 needs scheduler.leaderElect=true: two that both decide give one device away twice" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/*
/refit. Where `gpuslice.refit` is `true` node agents have in their pods:
  settings  refitEndpoint: `gpuslice.refitEndpoint`, refitCaFile: /etc/gpuslice/refit/ca.crt
  a volume  of the key ca.crt alone of the Secret `gpuslice.refitCaSecret`, at /etc/gpuslice/refit
*/}}
{{- define "gpuslice.refit" -}}
{{- if and (include "gpuslice.scheduler" .) .Values.scheduler.refit.enabled }}true{{ end -}}
{{- end -}}

{{- define "gpuslice.refitEndpoint" -}}
https://{{ include "gpuslice.refitHost" . }}/refit
{{- end -}}

{{- define "gpuslice.refitHost" -}}
{{ include "gpuslice.fullname" . }}-scheduler.{{ include "gpuslice.namespace" . }}.svc
{{- end -}}

{{/* The Secret with the extender's certificate and key. */}}
{{- define "gpuslice.refitSecret" -}}
{{- $tls := .Values.scheduler.refit.tls -}}
{{- if eq $tls.mode "secret" -}}
{{- required "scheduler.refit.tls.secret.name: name your Secret with tls.crt, tls.key and ca.crt" $tls.secret.name -}}
{{- else -}}
{{- include "gpuslice.fullname" . }}-scheduler-tls
{{- end -}}
{{- end -}}

{{/*
The Secret with the authority. It is another one, because kubelets may read what their pods mount: with
the extender's key a node could be the extender for others. Of a Secret of yours ca.crt is mounted.
*/}}
{{- define "gpuslice.refitCaSecret" -}}
{{- if eq .Values.scheduler.refit.tls.mode "secret" -}}
{{- include "gpuslice.refitSecret" . -}}
{{- else -}}
{{- include "gpuslice.fullname" . }}-scheduler-ca
{{- end -}}
{{- end -}}

{{/*
A certificate that the chart makes, as JSON: ca, certificate and key. What is there is kept, so that an
upgrade restarts nobody; without a cluster to look into, each rendering makes another.
*/}}
{{- define "gpuslice.refitCertificate" -}}
{{- $namespace := include "gpuslice.namespace" . -}}
{{- $found := lookup "v1" "Secret" $namespace (include "gpuslice.refitSecret" .) | default dict -}}
{{- $data := get $found "data" | default dict -}}
{{- if and (get $data "tls.crt") (get $data "tls.key") (get $data "ca.crt") -}}
{{- dict "certificate" (get $data "tls.crt") "key" (get $data "tls.key") "ca" (get $data "ca.crt") | toJson -}}
{{- else -}}
{{- $host := include "gpuslice.refitHost" . -}}
{{- $ca := genCAWithKey (printf "%s-scheduler-ca" (include "gpuslice.fullname" .)) 3650 (genPrivateKey "ecdsa") -}}
{{- $made := genSignedCertWithKey $host nil (list $host (printf "%s.cluster.local" $host) (trimSuffix ".svc" $host)) 3650 $ca (genPrivateKey "ecdsa") -}}
{{- dict "certificate" (b64enc $made.Cert) "key" (b64enc $made.Key) "ca" (b64enc $ca.Cert) | toJson -}}
{{- end -}}
{{- end -}}
