{{- define "chat.fullname" -}}{{ .Release.Name }}-chat{{- end }}
