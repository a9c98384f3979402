{{/* What all pods have in common: names, labels, the image, and that they are nobody special on their machine. */}}
{{- define "sudare.name" -}}
{{- printf "%s-%s" .root.Release.Name .component | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "sudare.selector" -}}
app.kubernetes.io/name: sudare
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "sudare.labels" -}}
{{ include "sudare.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{- end }}

{{- define "sudare.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- define "sudare.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ range . }}
  - name: {{ . }}{{ end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  # Only an empty volume is given to the group; keys stay readable by their owner alone.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "sudare.container" -}}
image: {{ include "sudare.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "sudare.scratch" -}}
- name: tmp
  emptyDir: {}
- name: home
  emptyDir: {}
{{- end }}

{{- define "sudare.scratchMounts" -}}
- {name: tmp, mountPath: /tmp}
- {name: home, mountPath: /var/lib/sudare}
{{- end }}

{{- define "sudare.claim" -}}
{{ .Values.workspace.existingClaim | default (printf "%s-workspace" .Release.Name) }}
{{- end }}

{{- define "sudare.ledger" -}}
- {name: SUDARE_WORKSPACE, value: /workspace}
- name: SUDARE_LEDGER_URL
  valueFrom: {secretKeyRef: {name: {{ .Values.secret }}, key: ledger-url}}
{{- end }}

{{/* A worker or a job of its own: the only pods that mount the source and reach it. */}}
{{- define "sudare.workerPod" -}}
{{- $values := .root.Values -}}
{{ include "sudare.pod" .root }}
terminationGracePeriodSeconds: 45
initContainers:
  - name: init
    {{- include "sudare.container" .root | nindent 4 }}
    # One at a time: two that begin together would make two signing keys.
    command: [flock, /workspace/.init, sh, -c, "test -f /workspace/sudare.toml || sudare init /workspace"]
    env: {{- include "sudare.ledger" .root | nindent 6 }}
    resources: {requests: {cpu: 100m, memory: 256Mi}, limits: {memory: 512Mi}}
    volumeMounts:
      - {name: workspace, mountPath: /workspace}
      {{- include "sudare.scratchMounts" .root | nindent 6 }}
containers:
  - name: worker
    {{- include "sudare.container" .root | nindent 4 }}
    command: {{ toJson .command }}
    env:
      {{- include "sudare.ledger" .root | nindent 6 }}
      {{- if .prefect }}
      - {name: PREFECT_API_URL, value: "http://{{ include "sudare.name" (dict "root" .root "component" "prefect") }}:4200/api"}
      - name: PREFECT_API_AUTH_STRING
        valueFrom: {secretKeyRef: {name: {{ $values.secret }}, key: prefect-auth}}
      {{- end }}
    {{- with $values.workerSecrets }}
    envFrom: {{ range . }}
      - secretRef: {name: {{ . }}}{{ end }}
    {{- end }}
    resources: {{- toYaml $values.worker.resources | nindent 6 }}
    volumeMounts:
      - {name: workspace, mountPath: /workspace}
      {{- if $values.source.existingClaim }}
      - {name: source, mountPath: /data, readOnly: true}
      {{- end }}
      {{- include "sudare.scratchMounts" .root | nindent 6 }}
volumes:
  - name: workspace
    persistentVolumeClaim: {claimName: {{ include "sudare.claim" .root }}}
  {{- with $values.source.existingClaim }}
  - name: source
    persistentVolumeClaim: {claimName: {{ . }}, readOnly: true}
  {{- end }}
  {{- include "sudare.scratch" .root | nindent 2 }}
{{- end }}
