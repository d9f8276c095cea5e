{{/* What templates of certificates by cert-manager share. */}}

{{/* Of (list root component): the Issuer of certManager.issuerType=selfsigned. */}}
{{- define "gpuslice.ownAuthority" -}}
{{- $name := printf "%s-%s" (include "gpuslice.fullname" (index . 0)) (index . 1) -}}
{{- $metadata := include "gpuslice.metadata" (list (index . 0) (index . 1) true) -}}
# An authority of our own signs, so that what is trusted outlives the certificates that are renewed
# below it.
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $name }}-selfsigned
  {{- $metadata | nindent 2 }}
spec:
  selfSigned: {}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata:
  name: {{ $name }}-root
  {{- $metadata | nindent 2 }}
spec:
  isCA: true
  commonName: {{ $name }}-root
  secretName: {{ $name }}-root
  # Ten years.
  duration: 87600h
  privateKey:
    algorithm: ECDSA
    size: 256
  issuerRef:
    group: cert-manager.io
    kind: Issuer
    name: {{ $name }}-selfsigned
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata:
  name: {{ $name }}-root
  {{- $metadata | nindent 2 }}
spec:
  ca:
    secretName: {{ $name }}-root
{{- end -}}

{{/* Of (list root component certManager where-that-is): who signs. */}}
{{- define "gpuslice.issuer" -}}
{{- $manager := index . 2 -}}
group: cert-manager.io
{{- if eq $manager.issuerType "selfsigned" }}
kind: Issuer
name: {{ include "gpuslice.fullname" (index . 0) }}-{{ index . 1 }}-root
{{- else }}
kind: {{ ternary "ClusterIssuer" "Issuer" (eq $manager.issuerType "clusterissuer") }}
name: {{ required (printf "%s.issuerName: name the Issuer or ClusterIssuer" (index . 3)) $manager.issuerName }}
{{- end }}
{{- end -}}
