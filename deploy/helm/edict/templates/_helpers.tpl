{{- define "edict.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The labels of a part: call with a dict of root and part. */ -}}
{{- define "edict.selector" -}}
app.kubernetes.io/name: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end -}}

{{- define "edict.labels" -}}
{{ include "edict.selector" . }}
app.kubernetes.io/part-of: edict
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "edict.image" -}}
{{ printf "%s:%s" .image.repository (default .root.Chart.AppVersion .image.tag) }}
{{- end -}}

{{- /* Nobody is root, nothing is written but to volumes. */ -}}
{{- define "edict.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "edict.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop:
    - ALL
{{- end -}}

{{- define "edict.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "edict.selector" . | nindent 6 }}
- maxSkew: 1
  topologyKey: topology.kubernetes.io/zone
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "edict.selector" . | nindent 6 }}
{{- end -}}

{{- define "edict.natsURLs" -}}
{{- if eq .Values.nats.mode "cluster" -}}
{{- $host := printf "%s-nats" (include "edict.fullname" .) -}}
{{- $urls := list -}}
{{- range $i := until 3 -}}
{{- $urls = append $urls (printf "nats://%s-%d.%s:4222" $host $i $host) -}}
{{- end -}}
{{- join "," $urls -}}
{{- else -}}
{{- required "nats.urls is needed with nats.mode external" (join "," .Values.nats.urls) -}}
{{- end -}}
{{- end -}}

{{- define "edict.existing" -}}
{{- if eq (toString .Values.workers.existing) "auto" -}}
{{- .Release.IsUpgrade -}}
{{- else -}}
{{- .Values.workers.existing -}}
{{- end -}}
{{- end -}}

{{- /* Where agents and the controller find the plane. */ -}}
{{- define "edict.server" -}}
{{- if .server -}}
{{- .server -}}
{{- else if .root.Values.access.enabled -}}
{{- printf "https://%s-api.%s.svc:%v" (include "edict.fullname" .root) .root.Release.Namespace .root.Values.access.service.port -}}
{{- else -}}
{{- fail (printf "%s.enabled needs access.enabled, or %s.server: workers without access control are on loopback" .part .part) -}}
{{- end -}}
{{- end -}}

{{- define "edict.dnsEgress" -}}
- to:
    - namespaceSelector: {}
      podSelector:
        matchLabels:
          {{- toYaml .Values.networkPolicy.dns | nindent 10 }}
  ports:
    - port: 53
      protocol: UDP
    - port: 53
      protocol: TCP
{{- end -}}

{{- /* The port that a URL leads to. */ -}}
{{- define "edict.portOf" -}}
{{- $url := urlParse . -}}
{{- $usual := get (dict "http" 80 "ws" 80 "https" 443 "wss" 443) $url.scheme | default 4222 -}}
{{- regexFind ":[0-9]+$" $url.host | trimPrefix ":" | default $usual -}}
{{- end -}}
