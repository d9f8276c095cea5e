{{/*
Read what HAMi's words say into our values. Included first by every template; only the first time does
anything, since all templates have the same values.
*/}}
{{- define "gpuslice.prepare" -}}
{{- if and .Values.hamiCompat (not .Values.hamiCompatRead) -}}
{{- include "gpuslice.hamiCompat" . -}}
{{- $_ := set .Values "hamiCompatRead" true -}}
{{- end -}}
{{- end -}}

{{/* By the table in files/hami-compat.yaml, in its order; all that cannot act is told at once. */}}
{{- define "gpuslice.hamiCompat" -}}
{{- $table := .Files.Get "files/hami-compat.yaml" | fromYaml -}}
{{- $rows := dict -}}
{{- range $table.keys }}{{ $_ := set $rows .key . }}{{ end -}}
{{- $found := dict "values" dict "mistakes" list -}}
{{- include "gpuslice.hamiCompat.walk" (dict "node" .Values.hamiCompat "path" "" "rows" $rows "found" $found) -}}
{{- $said := dict -}}
{{- range $table.keys -}}
{{- if hasKey . "default" }}{{ $_ := set $said .key .default }}{{ end -}}
{{- if hasKey $found.values .key }}{{ $_ := set $said .key (get $found.values .key) }}{{ end -}}
{{- end -}}
{{- if not (or .Values.deviceConfig.content .Values.deviceConfig.existingConfigMap (get $said "device-config.content")) -}}
{{- $_ := set .Values.deviceConfig "sections" (mergeOverwrite $table.sections .Values.deviceConfig.sections) -}}
{{- end -}}
{{- $run := dict "root" . "said" $said "found" $found -}}
{{- range $table.keys -}}
{{- include "gpuslice.hamiCompat.row" (dict "row" . "run" $run) -}}
{{- end -}}
{{- with $found.mistakes -}}
{{- fail (printf "hamiCompat:\n- %s" (join "\n- " .)) -}}
{{- end -}}
{{- end -}}

{{/* Collect the values that the table knows, below {node path rows found}. Nothing said is as not there. */}}
{{- define "gpuslice.hamiCompat.walk" -}}
{{- range $name, $value := .node -}}
{{- $path := printf "%s.%s" $.path $name | trimPrefix "." -}}
{{- $below := list -}}
{{- range $key, $row := $.rows -}}
{{- if hasPrefix (printf "%s." $path) $key -}}
{{- $below = append $below (trimPrefix (printf "%s." $path) $key | splitList "." | first) -}}
{{- end -}}
{{- end -}}
{{- if kindIs "invalid" $value -}}
{{- else if hasKey $.rows $path -}}
{{- $default := get (get $.rows $path) "default" -}}
{{- if and (kindIs "map" $default) (kindIs "map" $value) -}}
{{- $value = mergeOverwrite (deepCopy $default) (deepCopy $value) -}}
{{- range $inner, $each := $value }}{{ if kindIs "invalid" $each }}{{ $_ := unset $value $inner }}{{ end }}{{ end -}}
{{- end -}}
{{- $_ := set $.found.values $path $value -}}
{{- else if and $below (kindIs "map" $value) -}}
{{- include "gpuslice.hamiCompat.walk" (dict "node" $value "path" $path "rows" $.rows "found" $.found) -}}
{{- else if $below -}}
{{- $_ := set $.found "mistakes" (append $.found.mistakes (printf "%s is a mapping in HAMi's chart, of %s" $path ($below | uniq | sortAlpha | join ", "))) -}}
{{- else -}}
{{- $_ := set $.found "mistakes" (append $.found.mistakes (include "gpuslice.hamiCompat.unknown" (dict "path" $path "rows" $.rows))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The sentence about a key that HAMi's chart does not have: {path rows}. */}}
{{- define "gpuslice.hamiCompat.unknown" -}}
{{- $parent := regexReplaceAll "[^.]*$" .path "" -}}
{{- $plain := trimPrefix $parent .path | replace "-" "" | replace "_" "" | lower -}}
{{- $same := list -}}
{{- $near := list -}}
{{- $others := list -}}
{{- range $key, $row := .rows -}}
{{- if and (hasPrefix $parent $key) (not $row.until) -}}
{{- $name := trimPrefix $parent $key | splitList "." | first -}}
{{- $its := $name | replace "-" "" | replace "_" "" | lower -}}
{{- $others = append $others $name -}}
{{- if eq $its $plain -}}
{{- $same = append $same (printf "%s%s" $parent $name) -}}
{{- else if or (contains $its $plain) (contains $plain $its) -}}
{{- $near = append $near (printf "%s%s" $parent $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- .path }} is no value of HAMi's chart; {{ if or $same $near -}}
did you mean {{ default $near $same | uniq | join " or " }}?
{{- else -}}
there are {{ $others | uniq | join ", " }}
{{- end -}}
{{- end -}}

{{/* Do what {row run} says. */}}
{{- define "gpuslice.hamiCompat.row" -}}
{{- $row := .row -}}
{{- $run := .run -}}
{{- $given := hasKey $run.found.values $row.key -}}
{{- $value := get $run.said $row.key -}}
{{- $differs := and $given (not (and (hasKey $row "default") (eq (toJson $value) (toJson $row.default)))) -}}
{{- if and $differs (eq (get $row "as" | default "") "bool") (hasKey $row "default") -}}
{{- $differs = ne (toString $value) (toString $row.default) -}}
{{- end -}}
{{- $mistake := "" -}}
{{- if and $differs $row.refuse -}}
{{- $mistake = $row.refuse -}}
{{- else if and $differs $row.same (ne $value (get $run.said $row.same)) -}}
{{- $mistake = printf "no such image is used; leave it out, or as it is in %s" $row.same -}}
{{- else if and $differs $row.oneOf (not (has $value $row.oneOf)) -}}
{{- $mistake = printf "`%v` is none of %s" $value (join ", " $row.oneOf) -}}
{{- end -}}
{{- if $mistake -}}
{{- $_ := set $run.found "mistakes" (append $run.found.mistakes (printf "%s: %s" $row.key $mistake)) -}}
{{- else if $row.to -}}
{{- $with := false -}}
{{- range $row.with }}{{ $with = or $with (hasKey $run.found.values .) }}{{ end -}}
{{- $filling := and $row.fill (hasKey $run.said $row.key) -}}
{{- if or $differs $with $filling -}}
{{- range ternary $row.to (list $row.to) (kindIs "slice" $row.to) -}}
{{- $target := kindIs "map" . | ternary . (dict "path" . "as" $row.as "only" $row.only) -}}
{{- $fits := true -}}
{{- range $path, $wanted := $target.only -}}
{{- $fits = and $fits (eq (include "gpuslice.hamiCompat.get" (dict "values" $run.root.Values "path" $path)) (toJson $wanted)) -}}
{{- end -}}
{{- if $fits -}}
{{- $made := include "gpuslice.hamiCompat.as" (dict "as" $target.as "value" $value "run" $run "key" $row.key) | fromJson -}}
{{- if hasKey $made "value" -}}
{{- include "gpuslice.hamiCompat.set" (dict "values" $run.root.Values "path" $target.path "value" $made.value "fill" $row.fill "append" $row.append) -}}
{{- else if $made.mistake -}}
{{- $_ := set $run.found "mistakes" (append $run.found.mistakes (printf "%s: %s" $row.key $made.mistake)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $path, $constant := $row.also -}}
{{- include "gpuslice.hamiCompat.set" (dict "values" $run.root.Values "path" $path "value" $constant) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is at {path} of {values}, as JSON. */}}
{{- define "gpuslice.hamiCompat.get" -}}
{{- $node := .values -}}
{{- range splitList "." .path -}}
{{- $node = kindIs "map" $node | ternary $node dict -}}
{{- $node = get $node . -}}
{{- end -}}
{{- toJson $node -}}
{{- end -}}

{{/* Put {value} at {path} of {values}; `fill` only where nothing is, `append` after what is there. */}}
{{- define "gpuslice.hamiCompat.set" -}}
{{- $node := .values -}}
{{- $names := splitList "." .path -}}
{{- range initial $names -}}
{{- if not (kindIs "map" (get $node .)) }}{{ $_ := set $node . dict }}{{ end -}}
{{- $node = get $node . -}}
{{- end -}}
{{- $before := get $node (last $names) -}}
{{- if and .fill $before -}}
{{- else if and .append $before -}}
{{- $_ := set $node (last $names) (concat $before .value | uniq) -}}
{{- else -}}
{{- $_ := set $node (last $names) .value -}}
{{- end -}}
{{- end -}}

{{/*
{value} in our words, as JSON: {"value": ...}, {"mistake": ...}, or {} where it says nothing to us. Maps go
over maps of ours as they are.
*/}}
{{- define "gpuslice.hamiCompat.as" -}}
{{- $as := default "copy" .as -}}
{{- $value := .value -}}
{{- $made := dict -}}
{{- if eq $as "copy" -}}
{{- $_ := set $made "value" $value -}}
{{- else if eq $as "bool" -}}
{{- $text := toString $value | lower -}}
{{- if has $text (list "true" "false") -}}
{{- $_ := set $made "value" (eq $text "true") -}}
{{- else if ne $text "" -}}
{{- $_ := set $made "mistake" (printf "`%s` is neither true nor false" $text) -}}
{{- end -}}
{{- else if eq $as "seconds" -}}
{{- $text := toString $value -}}
{{- if regexMatch "^[0-9.]+$" $text -}}
{{- $_ := set $made "value" (float64 $text) -}}
{{- else if regexMatch "^([0-9.]+(h|m|s|ms))+$" $text -}}
{{- $sum := float64 0 -}}
{{- range regexFindAll "[0-9.]+[a-z]+" $text -1 -}}
{{- $unit := regexFind "[a-z]+$" . -}}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | float64) (get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) $unit)) -}}
{{- end -}}
{{- $_ := set $made "value" $sum -}}
{{- else -}}
{{- $_ := set $made "mistake" (printf "`%s` is no time such as 5m or 28s" $text) -}}
{{- end -}}
{{- else if eq $as "port" -}}
{{- with toString $value | regexFind "(^|:)[0-9]+$" -}}
{{- $_ := set $made "value" (trimPrefix ":" . | int) -}}
{{- end -}}
{{- else if eq $as "host" -}}
{{- with regexReplaceAll ":[0-9]*$" (toString $value) "" -}}
{{- $_ := set $made "value" (trimPrefix "[" . | trimSuffix "]") -}}
{{- end -}}
{{- else if eq $as "selector" -}}
{{- $parts := list -}}
{{- if kindIs "map" $value -}}
{{- range $key, $each := $value }}{{ $parts = append $parts (printf "%s=%v" $key $each) }}{{ end -}}
{{- else -}}
{{- $parts = list $value -}}
{{- end -}}
{{- $_ := set $made "value" (join "," $parts) -}}
{{- else if eq $as "secrets" -}}
{{- $names := list -}}
{{- range $value }}{{ $names = append $names (kindIs "map" . | ternary . (dict "name" .)) }}{{ end -}}
{{- $_ := set $made "value" $names -}}
{{- else if eq $as "environment" -}}
{{- $variables := list -}}
{{- if kindIs "map" $value -}}
{{- range $name, $each := $value }}{{ $variables = append $variables (dict "name" $name "value" (toString $each)) }}{{ end -}}
{{- else -}}
{{- $variables = $value -}}
{{- end -}}
{{- $_ := set $made "value" $variables -}}
{{- else if eq $as "arguments" -}}
{{- $kept := list -}}
{{- range $value }}{{ if not (hasPrefix "--config" .) }}{{ $kept = append $kept . }}{{ end }}{{ end -}}
{{- $_ := set $made "value" $kept -}}
{{- else if eq $as "url" -}}
{{- if $value -}}
{{- $said := .run.said -}}
{{- $_ := set $made "value" (printf "https://%s:%v" (get $said "scheduler.admissionWebhook.customURL.host") (get $said "scheduler.admissionWebhook.customURL.port")) -}}
{{- end -}}
{{- else if eq $as "names" -}}
{{- $_ := set $made "value" (splitList "," $value) -}}
{{- else if eq $as "cert-manager" -}}
{{- if $value }}{{ $_ := set $made "value" "cert-manager" }}{{ end -}}
{{- else if eq $as "kubelet-root" -}}
{{- if hasSuffix "/device-plugins" (trimSuffix "/" $value) -}}
{{- $_ := set $made "value" (trimSuffix "/" $value | trimSuffix "/device-plugins") -}}
{{- else -}}
{{- $_ := set $made "mistake" "it is device-plugins below kubelet's --root-dir; use kubeletRoot" -}}
{{- end -}}
{{- else if eq $as "no-section" -}}
{{- if not $value }}{{ $_ := set $made "value" dict }}{{ end -}}
{{- else if eq $as "node-config" -}}
{{- if not (contains "your-node-name" (toJson $value)) -}}
{{- $_ := set $made "value" $value -}}
{{- else -}}
{{- $config := kindIs "string" $value | ternary (toString $value | fromJson) $value -}}
{{- $entries := list -}}
{{- range $config.nodeconfig }}{{ if ne (toString .name) "your-node-name" }}{{ $entries = append $entries . }}{{ end }}{{ end -}}
{{- if $config.Error -}}
{{- $_ := set $made "mistake" (printf "no JSON: %s" $config.Error) -}}
{{- else if $entries -}}
{{- $_ := set $made "value" (dict "nodeconfig" $entries) -}}
{{- end -}}
{{- end -}}
{{- else if hasPrefix "each-" $as -}}
{{- $configs := dig "vnpus" "configs" list .run.root.Values.deviceConfig.sections -}}
{{- range $configs }}{{ $_ := set . (trimPrefix "each-" $as) (eq $as "each-overwriteEnv" | ternary (eq (toString $value) "true") $value) }}{{ end -}}
{{- if $configs }}{{ $_ := set $made "value" $configs }}{{ end -}}
{{- else -}}
{{- fail (printf "files/hami-compat.yaml: %s: there is no `as: %s`" .key $as) -}}
{{- end -}}
{{- toJson $made -}}
{{- end -}}
