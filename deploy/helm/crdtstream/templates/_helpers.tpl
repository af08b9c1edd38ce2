{{/* The name of everything that belongs to the release; a region's things add its number. */}}
{{- define "crdtstream.fullname" -}}
{{- if contains "crdtstream" .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-crdtstream" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "crdtstream.selector" -}}
app.kubernetes.io/name: crdtstream
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "crdtstream.labels" -}}
{{ include "crdtstream.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "crdtstream.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "crdtstream.serviceAccount" -}}
{{ .Values.serviceAccount.name | default (include "crdtstream.fullname" .) }}
{{- end -}}

{{- define "crdtstream.passwordSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-password" (include "crdtstream.fullname" .)) }}
{{- end -}}

{{/* The Secret of a region's certificate, of a list: the root, the region's number. */}}
{{- define "crdtstream.tlsSecret" -}}
{{- $root := index . 0 -}}
{{- $pattern := $root.Values.tls.secretName | default (printf "%s-%%d-tls" (include "crdtstream.fullname" $root)) -}}
{{- printf "%s" (replace "%d" (index . 1 | toString) $pattern) -}}
{{- end -}}

{{/* The name in the network of a region's pod, whether it is ready or not: the root, the number. */}}
{{- define "crdtstream.peerHost" -}}
{{- $root := index . 0 -}}
{{- printf "%s-%v-peers.%s.svc" (include "crdtstream.fullname" $root) (index . 1) $root.Release.Namespace -}}
{{- end -}}

{{- define "crdtstream.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "crdtstream.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The storage of a region, whose own values come first: the root, the region. */}}
{{- define "crdtstream.storage" -}}
{{- toYaml (mergeOverwrite (deepCopy (index . 0).Values.storage) ((index . 1).storage | default dict)) -}}
{{- end -}}

{{/* Bytes of a part of a quantity such as 1.5Gi: the quantity, the percentage, the name of the value and of the setting. */}}
{{- define "crdtstream.partOf" -}}
{{- $quantity := index . 0 -}}
{{- $text := ternary (int64 $quantity | toString) (toString $quantity) (kindIs "float64" $quantity) -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $text -}}
{{- $unit := trimPrefix $number $text -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "%s: %s is no number of bytes such as 512Mi or 10Gi; write it so, or give settings.%s yourself" (index . 2) $text (index . 3)) -}}
{{- end -}}
{{- divf (mulf $number (get $units $unit) (index . 1)) 100 | floor | int64 -}}
{{- end -}}

{{/* The settings of a region's node: the root, the region. */}}
{{- define "crdtstream.regionToml" -}}
{{- $root := index . 0 -}}
{{- $region := index . 1 -}}
{{- $settings := deepCopy $root.Values.settings -}}
{{- $limit := dig "limits" "memory" "" ($region.resources | default $root.Values.resources) -}}
{{- if and $limit (not (hasKey $settings "maxmemory")) -}}
{{- $_ := set $settings "maxmemory" (include "crdtstream.partOf" (list $limit 70 "resources.limits.memory" "maxmemory") | int64) -}}
{{- end -}}
{{- if not (hasKey $settings "maxdisk") -}}
{{- $storage := fromYaml (include "crdtstream.storage" (list $root $region)) -}}
{{- $_ := set $settings "maxdisk" (include "crdtstream.partOf" (list $storage.size 80 "storage.size" "maxdisk") | int64) -}}
{{- end -}}
region = {{ $region.id }}
database_id = {{ $root.Values.databaseId | toJson }}
dir = "/data/region-{{ $region.id }}"
host = "0.0.0.0"
grpc_host = "0.0.0.0"
http_host = "0.0.0.0"
{{- if $root.Values.tls.enabled }}
resp_port = 0
tls_port = 6380
{{- else }}
resp_port = 6380
{{- end }}
grpc_port = 7380
http_port = 8380
requirepass_file = "/run/secrets/crdtstream/requirepass"
{{- if $root.Values.tls.enabled }}
tls_replication = true
tls_http = true
tls_auth_clients = {{ $root.Values.tls.clientCertificates | toJson }}
tls_cert_file = "/run/secrets/tls/tls.crt"
tls_key_file = "/run/secrets/tls/tls.key"
tls_ca_cert_file = "/run/secrets/tls/ca.crt"
{{- else }}
insecure_peers = true
{{- end }}
{{- range $name, $value := $settings }}
{{- if not (kindIs "map" $value) }}
{{ $name }} = {{ $value | toJson }}
{{- end }}
{{- end }}
{{- /* Tables come last: what follows a table's name belongs to it. */ -}}
{{- range $name, $table := $settings }}
{{- if kindIs "map" $table }}

[{{ $name }}]
{{- range $key, $value := $table }}
{{ $key }} = {{ $value | toJson }}
{{- end }}
{{- end }}
{{- end }}
{{- range $other := $root.Values.regions }}
{{- if ne (int $other.id) (int $region.id) }}

[[peers]]
region = {{ $other.id }}
address = "{{ include "crdtstream.peerHost" (list $root $other.id) }}:7380"
{{- end }}
{{- end }}
{{- range $other := $root.Values.externalPeers }}

[[peers]]
region = {{ $other.region }}
address = {{ $other.address | toJson }}
{{- end }}
{{- end -}}
