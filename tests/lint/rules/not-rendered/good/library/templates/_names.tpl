{{- define "shared.name" -}}{{ .Release.Name }}{{- end }}
