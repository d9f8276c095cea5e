{{/* The init containers that lay HAMi-core down on the node. */}}
{{- define "gpuslice.agent.installers" -}}
# Takes the library out of its image, and sees nothing of the node.
- name: library
  image: {{ include "gpuslice.image" (list .Values.library.image "") }}
  imagePullPolicy: {{ .Values.library.image.pullPolicy }}
  command: [sh, -c, 'cp "$0"/libvgpu.so* /library/', {{ .Values.library.path | trimSuffix "/" | quote }}]
  securityContext:
    runAsUser: 65532
    runAsGroup: 65532
    runAsNonRoot: true
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.library.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
  - name: library
    mountPath: /library
# Looks whether it is one and lays it under the hash of its content; fails the agent otherwise.
- name: install-library
  image: {{ include "gpuslice.image" (list .Values.image .Chart.AppVersion) }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args:
  - install-library
  - --from=/library
  - --to={{ include "gpuslice.agent.pluginDirectory" . }}/libraries
  # The directory is root's.
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    runAsNonRoot: false
    readOnlyRootFilesystem: true
    allowPrivilegeEscalation: false
    capabilities:
      drop: [ALL]
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.library.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
  - name: library
    mountPath: /library
    readOnly: true
  - name: plugin
    mountPath: {{ include "gpuslice.agent.pluginDirectory" . }}
{{- end -}}
