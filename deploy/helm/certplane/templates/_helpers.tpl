{{- define "certplane.namespace" -}}
{{- $name := .Values.namespace.name | default .Release.Namespace -}}
{{- if hasPrefix "kube-" $name -}}
{{- fail (printf "namespace: %s is Kubernetes' own, where the restrictions on pods would stop other pods: choose another" $name) -}}
{{- end -}}
{{- $name -}}
{{- end }}

{{- define "certplane.image" -}}
{{- .Values.image | default (printf "certplane:%s" (.Chart.AppVersion | replace "+" "-")) -}}
{{- end }}

{{- /* The choices that have an effect, as JSON: a map of their names to true. */ -}}
{{- define "certplane.chosen" -}}
{{- $table := include "certplane.table" . | fromJson -}}
{{- $choice := .Values.controllers -}}
{{- range $set, $names := $table.sets -}}
{{- range $name := $names -}}
{{- if not (or (has $name $.Values.controllers) (has (printf "-%s" $name) $.Values.controllers)) -}}
{{- range $sign := list "" "-" -}}
{{- if has (printf "%s%s" $sign $set) $.Values.controllers -}}
{{- $choice = append $choice (printf "%s%s" $sign $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $named := dict -}}
{{- range $name, $byDefault := $table.controllers -}}
{{- if or (has $name $choice) (and $byDefault (has "*" $choice) (not (has (printf "-%s" $name) $choice))) -}}
{{- $_ := set $named $name true -}}
{{- end -}}
{{- end -}}
{{- if not $named -}}
{{- fail "controllers: none is chosen" -}}
{{- end -}}
{{- $chosen := deepCopy $named -}}
{{- range $name, $needs := $table.needs -}}
{{- if not (include "certplane.oneOf" (prepend $needs $named)) -}}
{{- $_ := unset $chosen $name -}}
{{- end -}}
{{- end -}}
{{- $config := .Values.config -}}
{{- range $name, $of := $table.settings -}}
{{- $stanza := index $config (first $of.setting) | default dict -}}
{{- if and (hasKey $named $of.controller) (index $stanza (last $of.setting)) -}}
{{- $_ := set $chosen $name true -}}
{{- end -}}
{{- end -}}
{{- toJson $chosen -}}
{{- end }}

{{- /* Not empty if one of the names after the map is in it. */ -}}
{{- define "certplane.oneOf" -}}
{{- $chosen := first . -}}
{{- range rest . -}}
{{- if hasKey $chosen . -}}true{{- end -}}
{{- end -}}
{{- end }}

{{- /* A kind. Its argument is a list of the root and the name of the file. */ -}}
{{- define "certplane.crd" -}}
{{- $root := first . -}}
{{- $kind := $root.Files.Get (last .) | fromYaml -}}
{{- if $root.Values.crds.keep -}}
{{- $_ := set $kind.metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") (index $kind.metadata "annotations" | default dict)) -}}
{{- end -}}
{{- toYaml $kind -}}
{{- end }}

{{- /* The configuration file: the settings of the user, and those that a pod needs. */ -}}
{{- define "certplane.config" -}}
{{- $chosen := include "certplane.chosen" . | fromJson -}}
{{- $config := deepCopy .Values.config -}}
{{- $pod := dict "apiVersion" "config.certplane.dev/v1alpha1" "kind" "ControllersConfiguration" -}}
{{- $_ := set $pod "health" (dict "bindAddress" ":8081") -}}
{{- $_ := set $pod "metrics" (dict "bindAddress" ":8443") -}}
{{- $_ := set $pod "acme" (dict "http01" (dict "cluster" (dict "solverImage" (include "certplane.image" .)))) -}}
{{- if include "certplane.servesWebhook" . -}}
{{- $_ := set $pod "webhook" (dict "bindAddress" ":10250") -}}
{{- end -}}
{{- if ne (include "certplane.namespace" .) "certplane-system" -}}
{{- $_ := set $pod "namespace" (include "certplane.namespace" .) -}}
{{- end -}}
{{- if ne (toJson .Values.controllers) (toJson (list "*")) -}}
{{- $_ := set $pod "controllers" .Values.controllers -}}
{{- end -}}
{{- if and (hasKey $chosen "sign") (not (include "certplane.namesCA" .)) -}}
{{- $_ := set $pod "signing" (dict "ca" (dict "certFile" "/etc/certplane/ca/tls.crt" "keyFile" "/etc/certplane/ca/tls.key")) -}}
{{- end -}}
{{- mergeOverwrite $pod $config | toYaml }}
{{ end }}

{{- /* Not empty if the settings name a CA for a built-in signer. */ -}}
{{- define "certplane.namesCA" -}}
{{- $signing := index .Values.config "signing" | default dict -}}
{{- if index $signing "ca" -}}true{{- end -}}
{{- range index $signing "signers" -}}
{{- if index . "ca" -}}true{{- end -}}
{{- end -}}
{{- end }}

{{- /* Not empty if the configuration names files of the Secret with the CA. */ -}}
{{- define "certplane.usesCA" -}}
{{- if contains "/etc/certplane/ca/" (include "certplane.config" .) -}}true{{- end -}}
{{- end }}

{{- /* The resources of a pod, as JSON. */ -}}
{{- define "certplane.resources" -}}
{{- $all := dict -}}
{{- range $of := list "requests" "limits" -}}
{{- $quantities := dict -}}
{{- range $name, $quantity := index $.Values.resources $of -}}
{{- if and $quantity (ne (include "certplane.amount" $quantity) "0") -}}
{{- $_ := set $quantities $name (toString $quantity) -}}
{{- end -}}
{{- end -}}
{{- if $quantities -}}
{{- $_ := set $all $of $quantities -}}
{{- end -}}
{{- end -}}
{{- range $name, $limit := index $all "limits" -}}
{{- $request := index (index $all "requests" | default dict) $name -}}
{{- if $request -}}
{{- if gt (include "certplane.amount" $request | int64) (include "certplane.amount" $limit | int64) -}}
{{- fail (printf "resources.requests.%s: %s is more than the limit, %s" $name $request $limit) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $all -}}
{{- end }}

{{- /* A quantity as a whole number of thousandths: of cores, or of bytes. */ -}}
{{- define "certplane.amount" -}}
{{- $text := toString . -}}
{{- $units := dict "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 -}}
{{- $unit := regexFind "[A-Za-z]+$" $text -}}
{{- $number := trimSuffix $unit $text -}}
{{- if eq $unit "m" -}}
{{- $number | int64 -}}
{{- else if contains "." $number -}}
{{- mulf ($number | float64) 1000 | int64 -}}
{{- else -}}
{{- mul ($number | int64) (index $units $unit | default 1) 1000 -}}
{{- end -}}
{{- end }}

{{- /* The environment of a pod, as JSON: the limit from which Go's garbage collector works
     harder, 7/8 of that of the pod. */ -}}
{{- define "certplane.env" -}}
{{- $limit := include "certplane.amount" (index .Values.resources.limits "memory" | default "0") | int64 -}}
{{- if $limit -}}
{{- $mebibytes := div (mul (div (div $limit 1000) 8) 7) 1048576 -}}
{{- list (dict "name" "GOMEMLIMIT" "value" (printf "%dMiB" $mebibytes)) | toJson -}}
{{- else -}}
[]
{{- end -}}
{{- end }}
